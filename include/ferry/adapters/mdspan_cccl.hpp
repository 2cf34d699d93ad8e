// ferry: typed views as cuda::std::mdspan, which CCCL brings to C++17 and to device code.
#pragma once

#include <ferry/tensor/mdspan.hpp>

#include <cuda/std/mdspan>

namespace ferry::mdspan_family {

/// `ferry::to_mdspan<ferry::mdspan_family::cccl>(v)`.
struct cccl : of<::cuda::std::mdspan, ::cuda::std::dextents, ::cuda::std::layout_right, ::cuda::std::layout_stride> {};

}  // namespace ferry::mdspan_family
