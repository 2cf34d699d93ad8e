// ferry: device views as mdspans for kernels. Requires nvcc.
#pragma once

#include <ferry/adapters/mdspan_cccl.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/facts.hpp>

#include <cuda/std/mdspan>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda {

/// An accessor like cuda::std::default_accessor, except that `access` compiles in device code only.
template <class T>
struct device_accessor {
    using offset_policy = device_accessor;
    using element_type = T;
    using reference = T&;
    using data_handle_type = T*;

    device_accessor() = default;
    /// Returns the address of an element.
    ///
    /// \param p  first element
    /// \param i  offset in elements
    /// \return   pointer to element `i`
    __host__ __device__ constexpr data_handle_type offset(data_handle_type p, std::size_t i) const noexcept {
        return p + i;
    }
    /// Returns a reference to an element.
    ///
    /// \param p  first element
    /// \param i  offset in elements
    /// \return   element `i`
    __device__ reference access(data_handle_type p, std::size_t i) const noexcept { return p[i]; }
};

/// An mdspan of device memory; its elements are accessible in device code only.
template <class T, std::size_t Rank, class Layout>
using device_mdspan = ::cuda::std::mdspan<T, ::cuda::std::dextents<std::int64_t, Rank>, Layout, device_accessor<T>>;

}  // namespace FERRY_NAMESPACE::cuda

namespace FERRY_NAMESPACE::mdspan_family {

/// The family of device mdspans. For a view `v` with access_from::device,
/// `ferry::to_mdspan<ferry::mdspan_family::cuda_device>(v)` returns an mdspan to pass to kernels. To use the
/// cuda::device_mdspan of later CCCL releases, define a family whose aliases refer to that type.
struct cuda_device : cccl {
    template <class T, std::size_t Rank>
    using device_contiguous = cuda::device_mdspan<T, Rank, ::cuda::std::layout_right>;
    template <class T, std::size_t Rank>
    using device_strided = cuda::device_mdspan<T, Rank, ::cuda::std::layout_stride>;
};

}  // namespace FERRY_NAMESPACE::mdspan_family

namespace FERRY_NAMESPACE {

/// Adapts device mdspans for `ferry::shaped{m}`, which borrows the elements. Their memory must outlive every tensor
/// that borrows it.
///
/// An mdspan does not store the stream on which its elements were written. `ready_on` therefore returns the legacy
/// default stream, which waits for all blocking streams. After work on a non-blocking stream, define the variable
/// `ferry::shaped view{m}`, and pass the stream in `to_dlpack(to_dlpack(view), request, back_end, stream)`.
template <class T, class Extents, class Layout>
    requires detail::strided_mdspan<::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>>>
struct shaped_traits<::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>>>
    : detail::mdspan_layout<::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>>> {
    /// Queries the driver for the device of the elements (R35).
    ///
    /// \param m  mdspan
    /// \return   device of its elements; cuda:0 for a null data handle
    /// \throws error  errors of `cuda::device_of_pointer`
    static ferry::device device(::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>> const& m) {
        return m.data_handle() != nullptr ? cuda::device_of_pointer(m.data_handle()) : ferry::device{device_type::cuda};
    }
    /// Returns the legacy default stream.
    static stream_token ready_on(::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>> const&) {
        return stream_token::cuda_legacy_default();
    }
};

}  // namespace FERRY_NAMESPACE
