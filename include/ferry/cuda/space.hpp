// ferry: memory spaces of CUDA memory.
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

/// CUDA returns null or an error for 0 bytes; a space returns memory or throws.
[[nodiscard]] constexpr std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

}  // namespace detail

/// Device memory by cudaMalloc, 256-byte aligned. Deallocating synchronises the device (cudaFree does): use a pool
/// where memory is allocated often. Thread-safe.
class device_space {
   public:
    /// \param device_id  device of the memory
    constexpr explicit device_space(std::int32_t device_id = 0) noexcept : device_id_{device_id} {}

    /// \param bytes  size
    /// \return       device memory
    /// \throws error  errc::out_of_memory, device, no_driver
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        device_guard const on{device_id_};
        detail::relaxed_capture_mode const relaxed;
        void* p = nullptr;
        check(cudaMalloc(&p, detail::at_least_one(bytes)), "cudaMalloc");
        return p;
    }
    /// \param p  memory of `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaFree(p));
    }
    /// \return  device of the memory
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda, device_id_}; }

   private:
    std::int32_t device_id_;
};

/// Pinned host memory, portable to all devices; copies to it run at the speed of the link. Pinning takes about a
/// millisecond per MiB: reuse it (`pinned_pool`). Deallocating synchronises (cudaFreeHost does). Thread-safe.
struct pinned_space {
    /// \param bytes  size
    /// \return       memory
    /// \throws error  errc::out_of_memory, no_driver
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        detail::relaxed_capture_mode const relaxed;
        void* p = nullptr;
        check(cudaHostAlloc(&p, detail::at_least_one(bytes), cudaHostAllocPortable), "cudaHostAlloc");
        return p;
    }
    /// \param p  memory of `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaFreeHost(p));
    }
    /// \return  cuda_host
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_host, 0}; }
};

/// Managed memory, accessible from the host and all GPUs; pages migrate on access. Deallocating synchronises (cudaFree
/// does). Thread-safe.
struct managed_space {
    /// \param bytes  size
    /// \return       memory
    /// \throws error  errc::out_of_memory, no_driver
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        detail::relaxed_capture_mode const relaxed;
        void* p = nullptr;
        check(cudaMallocManaged(&p, detail::at_least_one(bytes), cudaMemAttachGlobal), "cudaMallocManaged");
        return p;
    }
    /// \param p  memory of `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaFree(p));
    }
    /// \return  cuda_managed
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_managed, 0}; }
};

}  // namespace ferry::inline v0::cuda
