#include <ferry/base/flags.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using ferry::flags;

TEST_CASE("R11, R12, R13: the flag bits are those of the C header") {
    CHECK(static_cast<std::uint64_t>(flags::read_only) == 1);
    CHECK(static_cast<std::uint64_t>(flags::is_copied) == 2);
    CHECK(static_cast<std::uint64_t>(flags::subbyte_padded) == 4);
}

TEST_CASE("flags support the bitwise operators") {
    auto set = flags::read_only | flags::is_copied;
    CHECK(has(set, flags::read_only));
    CHECK(has(set, flags::read_only | flags::is_copied));
    CHECK_FALSE(has(set, flags::read_only | flags::subbyte_padded));
    CHECK(has(set, flags::none));
    set &= ~flags::read_only;
    CHECK(set == flags::is_copied);
    set |= flags::subbyte_padded;
    CHECK(set == (flags::is_copied | flags::subbyte_padded));
}

TEST_CASE("R13, R15: the legacy struct loses the flags for read-only and for padded data") {
    CHECK(lost_in_legacy(known(flags{7})) == (flags::read_only | flags::subbyte_padded));
    CHECK(lost_in_legacy(flags::is_copied) == flags::none);
}

TEST_CASE("R14: known() removes unknown bits") {
    CHECK(known(flags{~std::uint64_t{0}}) == flags{7});
    CHECK(known(flags{0x8000'0000'0000'0008}) == flags::none);
    CHECK(known(flags{0x12}) == flags::is_copied);
}
