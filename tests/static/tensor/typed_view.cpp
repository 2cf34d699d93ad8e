#include <ferry/tensor/as.hpp>

#include <concepts>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

using ferry::access_from;
using ferry::dynamic_rank;
using ferry::layout;
using ferry::typed_view;

namespace {

template <class View, class... Index>
concept callable = requires(View const v, Index... i) { v(i...); };
template <class View, class... Index>
concept checked = requires(View const v, Index... i) { v.at(i...); };
template <class View, class... S>
concept sliceable = requires(View const v, S... s) { v.slice(s...); };
template <class View, class Index>
concept indexed = requires(View const v, Index i) { v[i]; };
template <class View>
concept has_span = requires(View const v) { v.span(); };
template <class View>
concept subscriptable = requires(View const v, ferry::shape_view i) { v[i]; };
template <class View, class Value>
concept writable = requires(View const v, Value x) { v(0, 0) = x; };
template <class T, int Rank>
concept viewable = requires(ferry::tensor_view const& v) { ferry::as<T, Rank>(v); };

using plain = typed_view<float, 2>;
using constant = typed_view<float const, 2>;
using open = typed_view<float>;
using remote = typed_view<float, 2, access_from::device>;
using line = typed_view<float, 2, access_from::host, layout::contiguous>;
using packed = typed_view<ferry::int4_t, 2, access_from::host, layout::contiguous>;
template <class View>
concept has_lists = requires(View&& v) {
    static_cast<View&&>(v).shape();
    static_cast<View&&>(v).strides();
};
struct unknown {};
enum class colour { red };
enum position { first };

}  // namespace

// Regular values.
static_assert(std::copyable<plain> && std::is_trivially_copyable_v<plain> && std::is_trivially_copyable_v<open>);
static_assert(std::is_nothrow_move_constructible_v<plain> && std::is_nothrow_default_constructible_v<plain>);
static_assert(std::is_nothrow_default_constructible_v<open>);
static_assert(!std::is_default_constructible_v<typed_view<float, 0>>);  // has one element

// Conversions add const, forget that the elements are contiguous, or forget the rank, and never the reverse.
static_assert(std::is_nothrow_convertible_v<plain, constant> && !std::is_constructible_v<plain, constant>);
static_assert(std::is_convertible_v<line, plain> && std::is_convertible_v<line, constant>);
static_assert(!std::is_constructible_v<line, plain> && !std::is_constructible_v<plain, typed_view<float, 3>>);
static_assert(!std::is_constructible_v<plain, typed_view<double, 2>>);
static_assert(!std::is_constructible_v<remote, plain> && !std::is_constructible_v<plain, remote>);
static_assert(std::is_convertible_v<typed_view<float, 2, access_from::device>, typed_view<float const, 2, access_from::device>>);
// A view of dynamic rank references the extents, which a temporary would destroy.
static_assert(std::is_convertible_v<plain const&, open> && std::is_convertible_v<plain&, typed_view<float const>>);
static_assert(!std::is_constructible_v<open, plain> && !std::is_constructible_v<open, plain const>);
static_assert(std::is_convertible_v<open, typed_view<float const>>);
static_assert(!std::is_constructible_v<plain, open> && !std::is_constructible_v<plain, open&>);
// D2: only `as`, which checks the view, creates a typed view.
static_assert(!std::is_convertible_v<ferry::tensor_view, plain> &&
              !std::is_constructible_v<plain, ferry::tensor_view>);
// Only the data, the extents, and the strides that are not known.
static_assert(sizeof(plain) == 40 && sizeof(line) == 24 && sizeof(typed_view<float, 3>) == 56 && sizeof(open) == 40);
static_assert(sizeof(typed_view<float, dynamic_rank, access_from::host, layout::contiguous>) == 24);
static_assert(sizeof(typed_view<ferry::int4_t, 2>) == 48);

// A view of static rank stores the extents; a view of dynamic rank references those of the tensor.
static_assert(has_lists<plain&> && !has_lists<plain> && has_lists<open> && has_lists<open&>);

// D3: T const is read-only.
static_assert(std::same_as<plain::reference, float&> && std::same_as<constant::reference, float const&>);
static_assert(writable<plain, float> && !writable<constant, float>);
static_assert(std::same_as<constant::value_type, float> && std::same_as<constant::element_type, float const>);

// The number of indices is the static rank.
static_assert(callable<plain, int, int> && callable<plain, std::int64_t, unsigned>);
static_assert(!callable<plain> && !callable<plain, int> && !callable<plain, int, int, int>);
static_assert(checked<plain, int, int> && !checked<plain, int>);
static_assert(callable<open, int> && callable<open, int, int, int> && callable<typed_view<float, 0>>);
static_assert(!callable<plain, int, void*> && !callable<plain, int, char const*>);


// An index is an integer or an unscoped enumerator, not a bool, a floating-point number or another type.
static_assert(callable<plain, int, position> && callable<open, position> && checked<plain, short, position>);
static_assert(!callable<plain, int, bool> && !callable<plain, double, int> && !callable<plain, colour, int>);
static_assert(!callable<open, bool> && !callable<open, int, float> && !callable<open, float, int>);
static_assert(!checked<plain, int, bool> && !checked<plain, double, int> && !checked<open, bool>);
static_assert(indexed<typed_view<float, 1>, unsigned> && indexed<open, int>);
static_assert(!indexed<typed_view<float, 1>, bool> && !indexed<typed_view<float, 1>, double>);
static_assert(!indexed<open, bool> && !indexed<open, double> && !indexed<plain, int>);
static_assert(!indexed<typed_view<float, 1, access_from::device>, int>);

// slice() has an index or a range for each dimension of a static rank.
static_assert(sliceable<plain, int, ferry::range_slice> && sliceable<plain, ferry::range_slice, ferry::range_slice>);
static_assert(!sliceable<plain, ferry::range_slice> && !sliceable<plain, int, bool> && !sliceable<plain, bool, int>);
static_assert(!sliceable<plain, double, ferry::range_slice> && !sliceable<open, int> && !sliceable<open>);

// D4: the host cannot access device memory.
static_assert(!callable<remote, int, int> && !checked<remote, int, int> && !subscriptable<remote> && !has_span<remote>);
static_assert(!has_span<typed_view<float, 2, access_from::device, layout::contiguous>>);
static_assert(subscriptable<plain>);

// span() requires contiguous elements with addresses.
static_assert(has_span<line> && !has_span<plain> && !has_span<packed>);
static_assert(std::same_as<decltype(std::declval<line const&>().span()), std::span<float>>);

// R19: packed elements are read by value.
static_assert(std::same_as<packed::reference, ferry::int4_t> &&
              std::same_as<typed_view<ferry::int4_t const, 1>::reference, ferry::int4_t>);

// A view of rank 1 is a std::ranges::view, whose iterators do not reference it.
static_assert(std::ranges::view<typed_view<float, 1>> && std::ranges::borrowed_range<typed_view<float const, 1>>);
static_assert(std::ranges::view<typed_view<float, 1, access_from::host, layout::contiguous>> &&
              std::ranges::borrowed_range<typed_view<ferry::int4_t, 1>>);
static_assert(!std::ranges::range<plain> && !std::ranges::range<typed_view<float, 1, access_from::device>>);

static_assert(viewable<float, 2> && viewable<float const, dynamic_rank>);
static_assert(!viewable<unknown, 2> && !viewable<colour, 2> && !viewable<void, 2>);
