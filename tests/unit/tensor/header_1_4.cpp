// R4: with a newer header, the version that ferry supports is stamped, because a later version may have other
// requirements.
#define SUPPORT_DLPACK_MINOR 4
#define FERRY_DLPACK_HEADER <support/vendored_dlpack.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <doctest/doctest.h>

static_assert(DLPACK_MINOR_VERSION == 4 && ferry::version::current == ferry::version{1, 3});

namespace {

struct no_owner {};  // local to this file, so that make_managed is compiled with this header

}  // namespace

TEST_CASE("R4: the version 1.3 is stamped with a DLPack header of version 1.4") {
    float element = 0;
    ferry::tensor_view const v{&element, {}};
    CHECK(ferry::make_managed(no_owner{}, v).stamped() == ferry::version{1, 3});
    CHECK(ferry::make_managed(no_owner{}, v, ferry::flags::none, ferry::version{1, 4}).stamped() ==
          ferry::version{1, 3});
}
