#include <ferry/tensor/small_view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using ferry::dims;
using ferry::small_view;
using ferry::tensor_view;

static_assert(std::copyable<small_view<2>> && std::regular<dims<2>>);
static_assert(std::derived_from<small_view<2>, tensor_view>);

// A tensor_view references the lists of a small_view, which must outlive it (R7).
static_assert(std::convertible_to<small_view<2>&, tensor_view> &&
              std::convertible_to<small_view<2> const&, tensor_view>);
static_assert(!std::convertible_to<small_view<2>, tensor_view> &&
              !std::convertible_to<small_view<2> const, tensor_view>);
static_assert(!std::constructible_from<tensor_view, small_view<2>>);

// Extents are lists: the second of two integers would be a stride.
static_assert(std::constructible_from<small_view<2>, float*, std::vector<int>>);
static_assert(std::constructible_from<small_view<2>, float*, std::array<std::size_t, 2>, std::array<int, 2>>);
static_assert(!std::constructible_from<small_view<2>, float*, int, int>);
static_assert(!std::constructible_from<small_view<2>, void*, dims<2>>);
static_assert(!std::constructible_from<small_view<2>, float*, dims<2>, dims<2>, int>);

// Extents are integers of the usual types, not booleans, characters or floating-point numbers.
static_assert(std::constructible_from<dims<2>, std::int8_t, std::uint8_t> &&
              std::constructible_from<dims<2>, unsigned, long long> &&
              std::constructible_from<dims<2>, std::vector<std::uint8_t>>);
static_assert(!std::constructible_from<dims<2>, bool> && !std::constructible_from<dims<2>, int, bool>);
static_assert(!std::constructible_from<dims<2>, char> && !std::constructible_from<dims<2>, int, char> &&
              !std::constructible_from<dims<2>, wchar_t> && !std::constructible_from<dims<2>, int, char8_t> &&
              !std::constructible_from<dims<2>, char16_t> && !std::constructible_from<dims<2>, int, char32_t>);
static_assert(!std::constructible_from<dims<4>, char const (&)[3]> && !std::constructible_from<dims<4>, bool (&)[2]> &&
              !std::constructible_from<dims<4>, std::string> && !std::constructible_from<dims<4>, char const*>);
static_assert(!std::constructible_from<dims<2>, double> && !std::constructible_from<dims<2>, int, float>);
static_assert(!std::constructible_from<dims<2>, std::array<bool, 2>> &&
              !std::constructible_from<dims<2>, std::array<float, 2>>);
#ifdef __SIZEOF_INT128__
__extension__ using wide = __int128;
static_assert(!std::constructible_from<dims<2>, wide> && !std::constructible_from<dims<2>, int, wide> &&
              !std::constructible_from<dims<2>, std::vector<wide>>);
#endif

namespace {

constexpr std::int64_t elements() {
    float const data[6] = {};
    small_view<2> const v{data, {2, 3}};
    small_view<2> const copy = v;
    return copy.size();
}

}  // namespace

static_assert(elements() == 6);
