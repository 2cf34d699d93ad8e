// ferry: adapter for cuda::std::mdspan of CCCL, which is available in C++17 and in device code, in both directions.
#pragma once

#include <ferry/adapters/mdspan.hpp>

#include <cuda/std/mdspan>

namespace ferry::inline v0 {
namespace mdspan_family {

/// Selects cuda::std::mdspan: `ferry::to_mdspan<ferry::mdspan_family::cccl>(v)`.
struct cccl : of<::cuda::std::mdspan, ::cuda::std::dextents, ::cuda::std::layout_right, ::cuda::std::layout_stride> {};

}  // namespace mdspan_family

/// cuda::std::mdspan: as std::mdspan. Supports the default accessor only, for host memory.
template <class T, class Extents, class Layout>
    requires detail::strided_mdspan<::cuda::std::mdspan<T, Extents, Layout>>
struct shaped_traits<::cuda::std::mdspan<T, Extents, Layout>>
    : detail::mdspan_layout<::cuda::std::mdspan<T, Extents, Layout>> {};

}  // namespace ferry::inline v0
