#include <ferry/tensor/mdspan.hpp>

#include <cstddef>

namespace {

template <class T, class Extents, class Layout>
struct span_of_mine {};
template <class Index, std::size_t Rank>
struct extents_of_mine {};
struct right_of_mine {};
struct stride_of_mine {};

using family = ferry::mdspan_family::of<span_of_mine, extents_of_mine, right_of_mine, stride_of_mine>;
struct host_and_device : family {
    template <class T, std::size_t Rank>
    using device_contiguous = contiguous<T, Rank>;
    template <class T, std::size_t Rank>
    using device_strided = strided<T, Rank>;
};

using ferry::access_from;
using ferry::typed_view;

template <class Family, class View>
concept makes_mdspan = requires(View const& v) { ferry::to_mdspan<Family>(v); };

}  // namespace

static_assert(ferry::detail::host_mdspan_family<family> && !ferry::detail::device_mdspan_family<family>);
static_assert(ferry::detail::host_mdspan_family<host_and_device> &&
              ferry::detail::device_mdspan_family<host_and_device>);
static_assert(!ferry::detail::host_mdspan_family<int>);
static_assert(ferry::detail::host_mdspan_family<ferry::mdspan_family::standard> == (FERRY_HAS_STD_MDSPAN == 1));

// The host cannot access device memory; packed elements have no address.
static_assert(!makes_mdspan<family, typed_view<float, 2, access_from::device>>);
static_assert(!makes_mdspan<family, typed_view<ferry::int4_t, 2>>);
static_assert(!makes_mdspan<host_and_device, typed_view<ferry::int4_t, 2, access_from::device>>);
static_assert(!makes_mdspan<family, float*>);
