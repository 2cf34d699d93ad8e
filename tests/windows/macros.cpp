// The headers after <windows.h> without NOMINMAX, with its macros; and its names beside those of ferry after a using-directive.
// tests/windows/run writes all_includes.hpp, with the headers of other projects that ferry includes, and all_headers.hpp.
#include <all_includes.hpp>

#include <windows.h>

// Of the macros of other versions of <windows.h>: libstdc++ and MinGW-w64 define fewer.
#undef min
#undef max
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define small char
#if !defined(interface) || !defined(near) || !defined(far) || !defined(IN) || !defined(ERROR)
#error "these macros are what this test is about"
#endif

#include <all_headers.hpp>

using namespace ferry;

namespace {

using view = typed_view<float const, 2, access_from::device, layout::contiguous>;
static_assert(std::same_as<view::element_type, float const> && dtype_of<int4_t> == data_type{type_code::int_, 4});
static_assert(is_same_device(device{}, cpu) && !stream_token{}.has_device());
static_assert(conformance::name(conformance::verdict::kept)[0] == 'k');

}  // namespace
