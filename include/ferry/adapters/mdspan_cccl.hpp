// ferry: typed views as, and arrays from, cuda::std::mdspan, which CCCL brings to C++17 and to device code.
#pragma once

#include <ferry/adapters/mdspan.hpp>

#include <cuda/std/mdspan>

namespace ferry::inline v0 {
namespace mdspan_family {

/// `ferry::to_mdspan<ferry::mdspan_family::cccl>(v)`.
struct cccl : of<::cuda::std::mdspan, ::cuda::std::dextents, ::cuda::std::layout_right, ::cuda::std::layout_stride> {};

}  // namespace mdspan_family

/// As std::mdspan: `ferry::shaped{m}` borrows the elements. Only the default accessor's, which the host may read.
template <class T, class Extents, class Layout>
    requires detail::strided_mdspan<::cuda::std::mdspan<T, Extents, Layout>>
struct shaped_traits<::cuda::std::mdspan<T, Extents, Layout>>
    : detail::mdspan_layout<::cuda::std::mdspan<T, Extents, Layout>> {};

}  // namespace ferry::inline v0
