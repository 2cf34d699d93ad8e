#include <ferry/base/shape.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <list>
#include <span>
#include <type_traits>
#include <vector>

using ferry::shape_view;
using ferry::strides_view;
using ferry::detail::integer_list;
using array_of_two = std::int64_t[2];

static_assert(std::regular<shape_view>);
static_assert(std::semiregular<strides_view>);
static_assert(std::is_trivially_copyable_v<shape_view> && std::is_trivially_copyable_v<strides_view>);
static_assert(sizeof(shape_view) == 16 && sizeof(strides_view) == 16);

static_assert(integer_list<std::vector<std::int64_t>> && integer_list<std::array<std::int64_t, 2>>);
static_assert(integer_list<std::span<std::int64_t const>> && integer_list<shape_view>);
static_assert(!integer_list<std::vector<int>> && !integer_list<std::vector<std::uint64_t>>);
static_assert(!integer_list<std::list<std::int64_t>> && !integer_list<std::int64_t> && !integer_list<array_of_two>);

// Lvalues convert, temporaries do not: the list must outlive the view.
static_assert(std::is_convertible_v<std::vector<std::int64_t>&, shape_view>);
static_assert(std::is_convertible_v<std::vector<std::int64_t> const&, shape_view>);
static_assert(std::is_convertible_v<std::array<std::int64_t, 3> const&, strides_view>);
static_assert(std::is_convertible_v<array_of_two const&, shape_view> &&
              std::is_convertible_v<array_of_two&, shape_view>);
static_assert(!std::is_convertible_v<std::vector<std::int64_t>, shape_view>);
static_assert(!std::is_convertible_v<std::vector<std::int64_t> const, shape_view>);
static_assert(!std::is_convertible_v<std::array<std::int64_t, 3>, strides_view>);
static_assert(!std::is_convertible_v<array_of_two&&, shape_view> &&
              !std::is_convertible_v<array_of_two&&, strides_view>);

// A temporary span, or c10::IntArrayRef, references its values.
static_assert(std::is_convertible_v<std::span<std::int64_t const>, shape_view>);
static_assert(std::is_convertible_v<std::span<std::int64_t, 2>, strides_view>);

// Integers of another type are not an array of std::int64_t.
static_assert(!std::is_convertible_v<std::vector<int> const&, shape_view> &&
              !std::is_convertible_v<std::array<std::uint64_t, 2> const&, strides_view>);
static_assert(!std::is_convertible_v<std::vector<long long> const&, shape_view> || std::same_as<long long, std::int64_t>);
static_assert(!std::is_convertible_v<int (&)[2], shape_view>);

// {2, 3} is a temporary list, and {0, 3} must not be a null pointer with a rank.
static_assert(!std::is_constructible_v<shape_view, int, int> && !std::is_constructible_v<strides_view, int, int, int>);
static_assert(!std::is_constructible_v<shape_view, int> && !std::is_convertible_v<int, shape_view>);
static_assert(std::is_constructible_v<shape_view, std::int64_t const*, int>);

// Strides do not convert to extents.
static_assert(!std::is_convertible_v<strides_view, shape_view> && !std::is_convertible_v<shape_view, strides_view>);

namespace {

constexpr std::int64_t two_by_three[] = {2, 3};
constexpr std::int64_t count() {
    std::int64_t out = 0;
    return ferry::element_count(two_by_three, out) ? out : -1;
}
constexpr std::int64_t first_stride() {
    std::int64_t out[2] = {};
    ferry::fill_compact_strides(two_by_three, out);
    return out[0];
}

}  // namespace

static_assert(count() == 6 && first_stride() == 3);
