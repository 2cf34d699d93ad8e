#include <ferry/tensor/small_view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
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

// Lists of booleans or floating-point numbers are no extents.
static_assert(!std::constructible_from<dims<2>, std::array<bool, 2>> &&
              !std::constructible_from<dims<2>, std::array<float, 2>>);

namespace {

constexpr std::int64_t elements() {
    float const data[6] = {};
    small_view<2> const v{data, {2, 3}};
    small_view<2> const copy = v;
    return copy.size();
}

}  // namespace

static_assert(elements() == 6);
