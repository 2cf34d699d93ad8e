// ferry: adapter for CCCL's cuda::std::mdspan, which is available in C++17 and in device code. Exports it, and converts
// typed views to it.
#pragma once

#if !__has_include(<cuda/std/mdspan>)
#error "cuda/std/mdspan not found: add the include directory of CCCL, include/cccl of the CUDA Toolkit"
#include <see_the_error_above>
#endif

#include <ferry/adapters/mdspan.hpp>

#include <cuda/std/mdspan>

namespace FERRY_NAMESPACE {
namespace mdspan_family {

/// Selects cuda::std::mdspan: `ferry::to_mdspan<ferry::mdspan_family::cccl>(v)`.
struct cccl : of<::cuda::std::mdspan, ::cuda::std::dextents, ::cuda::std::layout_right, ::cuda::std::layout_stride> {};

}  // namespace mdspan_family

/// cuda::std::mdspan: exported in the same way as std::mdspan. Supports the default accessor and host memory only.
template <class T, class Extents, class Layout>
    requires detail::strided_mdspan<::cuda::std::mdspan<T, Extents, Layout>>
struct shaped_traits<::cuda::std::mdspan<T, Extents, Layout>>
    : detail::mdspan_layout<::cuda::std::mdspan<T, Extents, Layout>> {};

}  // namespace FERRY_NAMESPACE
