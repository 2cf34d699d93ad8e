// ferry: device views as mdspans for kernels. Needs nvcc.
#pragma once

#include <ferry/adapters/mdspan_cccl.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/facts.hpp>

#include <cuda/std/mdspan>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda {

/// Like cuda::std::default_accessor, for device code alone: in host code its access does not compile.
template <class T>
struct device_accessor {
    using offset_policy = device_accessor;
    using element_type = T;
    using reference = T&;
    using data_handle_type = T*;

    device_accessor() = default;
    __host__ __device__ constexpr data_handle_type offset(data_handle_type p, std::size_t i) const noexcept {
        return p + i;
    }
    __device__ reference access(data_handle_type p, std::size_t i) const noexcept { return p[i]; }
};

/// An mdspan of device memory: its elements can be reached on the device only.
template <class T, std::size_t Rank, class Layout>
using device_mdspan = ::cuda::std::mdspan<T, ::cuda::std::dextents<std::int64_t, Rank>, Layout, device_accessor<T>>;

}  // namespace ferry::inline v0::cuda

namespace ferry::inline v0::mdspan_family {

/// `ferry::to_mdspan<ferry::mdspan_family::cuda_device>(v)` of a view with access::device: an mdspan to pass to
/// kernels. Later releases of CCCL have a cuda::device_mdspan of their own; write a family with its names to use it.
struct cuda_device : cccl {
    template <class T, std::size_t Rank>
    using device_contiguous = cuda::device_mdspan<T, Rank, ::cuda::std::layout_right>;
    template <class T, std::size_t Rank>
    using device_strided = cuda::device_mdspan<T, Rank, ::cuda::std::layout_stride>;
};

}  // namespace ferry::inline v0::mdspan_family

namespace ferry::inline v0 {

/// And back: `ferry::shaped{m}` borrows the elements of device memory, which must outlive every tensor made from it.
/// The driver is asked which GPU they are on (R35); \throws error  as `cuda::where_is`
///
/// An mdspan does not know on which stream its elements were written. They count as ready on the legacy default stream,
/// which waits for all blocking ones. After work on a non-blocking stream, export first and then say that stream:
/// `to_dlpack(to_dlpack(lent), wish, back_end, stream)`, where `lent` is a variable: `ferry::shaped lent{m}`.
template <class T, class Extents, class Layout>
    requires detail::strided_mdspan<::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>>>
struct shaped_traits<::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>>>
    : detail::mdspan_layout<::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>>> {
    static ferry::device device(::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>> const& m) {
        return m.data_handle() != nullptr ? cuda::where_is(m.data_handle()) : ferry::device{device_type::cuda};
    }
    static stream_token ready_on(::cuda::std::mdspan<T, Extents, Layout, cuda::device_accessor<T>> const&) {
        return stream_token::cuda_legacy_default();
    }
};

}  // namespace ferry::inline v0
