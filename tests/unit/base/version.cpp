#include <ferry/base/version.hpp>

#include <doctest/doctest.h>

using ferry::version;

TEST_CASE("R4: ferry supports version 1.3 with every DLPack header") { CHECK(version::current == version{1, 3}); }

TEST_CASE("R57: version 0.0 requests the legacy struct") {
    CHECK(version::legacy.is_legacy());
    CHECK(version{0, 8}.is_legacy());
    CHECK_FALSE(version::current.is_legacy());
}

TEST_CASE("versions are ordered by major, then by minor") {
    CHECK(version{1, 9} < version{2, 0});
    CHECK(version{1, 2} < version{1, 10});
    CHECK(version{1, 2} <= version{1, 2});
}
