// ferry: adapts stream-ordered memory resources of other libraries to memory spaces, without including their headers.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/memory_space.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Resources of `cuda::mr` since CCCL 3.1 and of RMM since 25.12: the stream is the first argument.
template <class R>
concept stream_first_resource = requires(R& r, void* p, std::size_t n, cudaStream_t s) {
    { r.allocate(s, n, n) } -> std::same_as<void*>;
    r.deallocate(s, p, n, n);
};
/// Resources of `cuda::mr` before CCCL 3.1: allocate_async, with the stream as the last argument.
template <class R>
concept async_resource = requires(R& r, void* p, std::size_t n, cudaStream_t s) {
    { r.allocate_async(n, n, s) } -> std::same_as<void*>;
    r.deallocate_async(p, n, n, s);
};
/// RMM's base class before RMM 25.12: the stream is the last argument. Its memory is aligned to 256 bytes.
template <class R>
concept stream_last_resource = requires(R& r, void* p, std::size_t n, cudaStream_t s) {
    { r.allocate(n, s) } -> std::same_as<void*>;
    r.deallocate(p, n, s);
};

[[nodiscard]] inline std::int32_t device_of(stream_ref on) {
    stream_token const t{on};
    if (!is_default(t)) return device_of(t, "ferry::cuda::stream_resource_space");
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    return current;
}

}  // namespace detail

/// A stream-ordered memory resource, from `cuda::mr`, from RMM, or user-defined. It is recognised by its member
/// functions, which must accept a cudaStream_t, directly or by implicit conversion. It need not have a particular base
/// class or specify a device.
template <class R>
concept stream_ordered_resource =
    detail::stream_first_resource<R> || detail::async_resource<R> || detail::stream_last_resource<R>;

/// A memory space that allocates from a resource on a stream. Memory is allocated for later work on the stream, and
/// deallocated in stream order, after the work queued earlier. Borrows the resource and the stream, which must outlive
/// all memory of the space. The resource determines whether calls block, and how they behave during graph capture. As
/// thread-safe as the resource.
template <stream_ordered_resource Resource>
class stream_resource_space {
   public:
    /// Constructs a space for the stream's device or, if the stream is a default stream, for the current device.
    ///
    /// \param resource  resource to borrow
    /// \param on        stream that orders allocation and deallocation
    /// \throws error  errc::capturing, no_driver; errors of CUDA
    stream_resource_space(Resource& resource, stream_ref on)
        : stream_resource_space{resource, on, detail::device_of(on)} {}
    /// Constructs a space for a given device, without querying CUDA.
    ///
    /// \param resource   resource to borrow
    /// \param on         stream that orders allocation and deallocation
    /// \param device_id  device of the resource's memory
    stream_resource_space(Resource& resource, stream_ref on, std::int32_t device_id) noexcept
        : resource_{&resource}, on_{on}, device_id_{device_id} {}

    /// Allocates memory for later work on the stream. Exceptions from the resource propagate.
    ///
    /// \param bytes      size
    /// \param alignment  a power of two; at most 256 for resources without an alignment argument
    /// \return           device memory
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
        if constexpr (detail::stream_first_resource<Resource>) return resource_->allocate(on_.get(), bytes, alignment);
        else if constexpr (detail::async_resource<Resource>)
            return resource_->allocate_async(bytes, alignment, on_.get());
        else return resource_->allocate(bytes, on_.get());
    }
    /// Deallocates memory after the work queued on the stream. When the resource throws, the memory is leaked.
    ///
    /// \param p          memory returned by `allocate`
    /// \param bytes      as passed to `allocate`
    /// \param alignment  as passed to `allocate`
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        try {
            if constexpr (detail::stream_first_resource<Resource>)
                resource_->deallocate(on_.get(), p, bytes, alignment);
            else if constexpr (detail::async_resource<Resource>)
                resource_->deallocate_async(p, bytes, alignment, on_.get());
            else resource_->deallocate(p, bytes, on_.get());
        } catch (...) {  // CUDA has shut down, or the stream is destroyed: leaks (R66)
        }
    }
    /// Returns the device of the memory.
    [[nodiscard]] ferry::device device() const noexcept { return {device_type::cuda, device_id_}; }

   private:
    Resource* resource_;
    stream_ref on_;
    std::int32_t device_id_;
};

}  // namespace FERRY_NAMESPACE::cuda
