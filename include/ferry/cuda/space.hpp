// ferry: CUDA memory as memory spaces.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda {
namespace detail {

/// CUDA gives null, or an error, for 0 bytes; a space gives memory or throws.
[[nodiscard]] constexpr std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

}  // namespace detail

/// Memory of one GPU by cudaMalloc, 256-byte aligned. Giving it back waits for work on the device (cudaFree does): for
/// traffic take memory from a pool. Thread-safe.
class device_space {
   public:
    constexpr explicit device_space(std::int32_t device_id = 0) noexcept : device_id_{device_id} {}

    /// \throws error  errc::out_of_memory, device, no_driver
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        device_guard const on{device_id_};
        detail::beside_captures const quietly;
        void* p = nullptr;
        check(cudaMalloc(&p, detail::at_least_one(bytes)), "cudaMalloc");
        return p;
    }
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::beside_captures const quietly;
        detail::ignore(cudaFree(p));
    }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda, device_id_}; }

   private:
    std::int32_t device_id_;
};

/// Page-locked host memory, which copies travel to at the speed of the link. Pinning costs about a millisecond per MiB:
/// keep it (`pinned_pool`). Giving it back waits for work on the device (cudaFreeHost does). Thread-safe.
struct pinned_space {
    /// \throws error  errc::out_of_memory, no_driver
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        detail::beside_captures const quietly;
        void* p = nullptr;
        check(cudaHostAlloc(&p, detail::at_least_one(bytes), cudaHostAllocPortable), "cudaHostAlloc");
        return p;
    }
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::beside_captures const quietly;
        detail::ignore(cudaFreeHost(p));
    }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_host, 0}; }
};

/// Memory that host and GPUs both read; pages travel when they are touched. Giving it back waits for work on the device
/// (cudaFree does). Thread-safe.
struct managed_space {
    /// \throws error  errc::out_of_memory, no_driver
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        detail::beside_captures const quietly;
        void* p = nullptr;
        check(cudaMallocManaged(&p, detail::at_least_one(bytes), cudaMemAttachGlobal), "cudaMallocManaged");
        return p;
    }
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::beside_captures const quietly;
        detail::ignore(cudaFree(p));
    }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_managed, 0}; }
};

}  // namespace ferry::inline v0::cuda
