// ferry: typed views as the mdspan of Kokkos, the reference implementation, for C++20.
#pragma once

#include <ferry/tensor/mdspan.hpp>

#include <mdspan/mdspan.hpp>

namespace ferry::mdspan_family {

/// `ferry::to_mdspan<ferry::mdspan_family::kokkos>(v)`.
struct kokkos : of<::Kokkos::mdspan, ::Kokkos::dextents, ::Kokkos::layout_right, ::Kokkos::layout_stride> {};

}  // namespace ferry::mdspan_family
