#include <ferry/tensor/inplace_view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

using ferry::inplace_dims;
using ferry::inplace_view;
using ferry::tensor_view;

static_assert(std::copyable<inplace_view<2>> && std::regular<inplace_dims<2>>);
static_assert(std::derived_from<inplace_view<2>, tensor_view>);

// A tensor_view references the lists of an inplace_view, which must outlive it (R7).
static_assert(std::convertible_to<inplace_view<2>&, tensor_view> &&
              std::convertible_to<inplace_view<2> const&, tensor_view>);
static_assert(!std::convertible_to<inplace_view<2>, tensor_view> &&
              !std::convertible_to<inplace_view<2> const, tensor_view>);
static_assert(!std::constructible_from<tensor_view, inplace_view<2>>);
static_assert(!std::is_assignable_v<tensor_view&, inplace_view<2>&> &&
              !std::is_assignable_v<tensor_view&, inplace_view<2>> &&
              !std::is_assignable_v<inplace_view<2>&, tensor_view&>);

// Extents are lists: the second of two integers would be a stride.
static_assert(std::constructible_from<inplace_view<2>, float*, std::vector<int>>);
static_assert(std::constructible_from<inplace_view<2>, float*, std::array<std::size_t, 2>, std::array<int, 2>>);
static_assert(!std::constructible_from<inplace_view<2>, float*, int, int>);
static_assert(!std::constructible_from<inplace_view<2>, void*, inplace_dims<2>>);
static_assert(!std::constructible_from<inplace_view<2>, float*, inplace_dims<2>, inplace_dims<2>, int>);

// Extents are integers of the usual types, not booleans, characters or floating-point numbers.
static_assert(std::constructible_from<inplace_dims<2>, std::int8_t, std::uint8_t> &&
              std::constructible_from<inplace_dims<2>, unsigned, long long> &&
              std::constructible_from<inplace_dims<2>, std::vector<std::uint8_t>>);
template <class... Value>
concept listed = std::constructible_from<inplace_dims<4>, Value...>;
static_assert(!listed<bool> && !listed<int, bool> && !listed<double> && !listed<int, float>);
static_assert(!listed<char> && !listed<int, char> && !listed<wchar_t> && !listed<int, char8_t> && !listed<char16_t> &&
              !listed<int, char32_t>);
static_assert(!listed<char const (&)[3]> && !listed<bool (&)[2]> && !listed<std::string> && !listed<char const*>);
static_assert(!std::constructible_from<inplace_dims<2>, std::array<bool, 2>> &&
              !std::constructible_from<inplace_dims<2>, std::array<float, 2>>);
#ifdef __SIZEOF_INT128__
__extension__ using wide = __int128;
static_assert(!std::constructible_from<inplace_dims<2>, wide> && !std::constructible_from<inplace_dims<2>, int, wide> &&
              !std::constructible_from<inplace_dims<2>, std::vector<wide>>);
#endif

namespace {

constexpr std::int64_t elements() {
    float const data[6] = {};
    inplace_view<2> const v{data, {2, 3}};
    inplace_view<2> const copy = v;
    return copy.size();
}

}  // namespace

static_assert(elements() == 6);
