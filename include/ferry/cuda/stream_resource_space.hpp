// ferry: stream-ordered resources of other libraries as memory spaces. Includes none of them.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/memory_space.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda {
namespace detail {

/// `cuda::mr` and RMM since CCCL 3.1: the stream comes first.
template <class R>
concept stream_first_resource = requires(R& r, void* p, std::size_t n, cudaStream_t s) {
    { r.allocate(s, n, n) } -> std::same_as<void*>;
    r.deallocate(s, p, n, n);
};
/// Before: a name of its own, and the stream at the end.
template <class R>
concept async_resource = requires(R& r, void* p, std::size_t n, cudaStream_t s) {
    { r.allocate_async(n, n, s) } -> std::same_as<void*>;
    r.deallocate_async(p, n, n, s);
};
/// RMM's base class of those days, whose memory is 256-byte aligned.
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

/// A resource whose memory comes and goes in the order of a stream, recognised by shape: those of `cuda::mr`, of RMM
/// and the user's own. What it calls a stream is made from a cudaStream_t. Not required: a base class, or a device.
template <class R>
concept stream_ordered_resource =
    detail::stream_first_resource<R> || detail::async_resource<R> || detail::stream_last_resource<R>;

/// Such a resource as a space: memory is given out for work queued on the stream, and given back after what is queued
/// there by then. Borrows both, which must outlive every tensor made from it. Whether it blocks, and what a capture of
/// the stream means to it, is the resource's to say. As thread-safe as the resource.
template <stream_ordered_resource Resource>
class stream_resource_space {
   public:
    /// Memory of the stream's device; of the current one where it is a default stream.
    /// \throws error  errc::capturing, no_driver; what the driver reports
    stream_resource_space(Resource& resource, stream_ref on)
        : stream_resource_space{resource, on, detail::device_of(on)} {}
    /// Memory of this device.
    stream_resource_space(Resource& resource, stream_ref on, std::int32_t device_id) noexcept
        : resource_{&resource}, on_{on}, device_id_{device_id} {}

    /// \throws  what the resource throws
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
        if constexpr (detail::stream_first_resource<Resource>) return resource_->allocate(on_.get(), bytes, alignment);
        else if constexpr (detail::async_resource<Resource>)
            return resource_->allocate_async(bytes, alignment, on_.get());
        else return resource_->allocate(bytes, on_.get());
    }
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        try {
            if constexpr (detail::stream_first_resource<Resource>)
                resource_->deallocate(on_.get(), p, bytes, alignment);
            else if constexpr (detail::async_resource<Resource>)
                resource_->deallocate_async(p, bytes, alignment, on_.get());
            else resource_->deallocate(p, bytes, on_.get());
        } catch (...) {  // CUDA is gone, or the stream: nobody is left to be told (R66)
        }
    }
    [[nodiscard]] ferry::device device() const noexcept { return {device_type::cuda, device_id_}; }

   private:
    Resource* resource_;
    stream_ref on_;
    std::int32_t device_id_;
};

}  // namespace ferry::inline v0::cuda
