// ferry: exports of xtensor's containers, xarray and xtensor, and conversion of typed views to xtensor expressions.
#pragma once

#if !__has_include(<xtensor/xadapt.hpp>)
#error "xtensor not found: install xtensor 0.25 or earlier, and add its include directory or, with CMake, link xtensor"
#include <see_the_error_above>
#endif

#include <ferry/exchange/array_traits.hpp>
#include <ferry/tensor/typed_view.hpp>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xtensor.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>  // shape and strides for xt::adapt

namespace FERRY_NAMESPACE {
namespace detail {

static_assert(sizeof(std::size_t) == sizeof(std::int64_t) && sizeof(std::ptrdiff_t) == sizeof(std::int64_t));

/// Views reference the container's extents (std::size_t) and strides (std::ptrdiff_t) as std::int64_t, which has the
/// same width.
template <class Container>
struct xtensor_traits {
    static tensor_view view(Container& a) { return view_of(a.data(), a); }
    static tensor_view view(Container const& a) {
        return view_of(static_cast<typename Container::value_type const*>(a.data()), a);
    }

   private:
    template <class T>
    static tensor_view view_of(T* data, Container const& a) {
        auto const rank = static_cast<int>(a.dimension());
        return {data, shape_view{reinterpret_cast<std::int64_t const*>(a.shape().data()), rank},
                strides_view{a.strides().data(), rank}};
    }
};

}  // namespace detail

/// The containers own their elements: export them by move, or with borrow. Const containers are exported read-only
/// (R11).
template <class EC, xt::layout_type L, class SC, class Tag>
struct array_traits<xt::xarray_container<EC, L, SC, Tag>>
    : detail::xtensor_traits<xt::xarray_container<EC, L, SC, Tag>> {};
template <class EC, std::size_t N, xt::layout_type L, class Tag>
struct array_traits<xt::xtensor_container<EC, N, L, Tag>>
    : detail::xtensor_traits<xt::xtensor_container<EC, N, L, Tag>> {};

/// Returns an xtensor expression of a view with any strides.
///
/// The expression references the elements, which must outlive it. Does not synchronise.
///
/// \param v  view
/// \return   expression without ownership
/// \throws std::bad_alloc  when the allocation of the shape and the strides fails
template <class T, int Rank>
[[nodiscard]] auto to_xtensor(typed_view<T, Rank> const& v) {
    std::vector<std::size_t> shape;
    std::vector<std::ptrdiff_t> strides;
    for (int i = 0; i < v.rank(); ++i) {
        shape.push_back(static_cast<std::size_t>(v.extent(i)));
        strides.push_back(v.stride(i));
    }
    return xt::adapt(v.data(), static_cast<std::size_t>(v.size()), xt::no_ownership(), shape, strides);
}

}  // namespace FERRY_NAMESPACE
