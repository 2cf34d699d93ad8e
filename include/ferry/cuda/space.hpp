// ferry: memory spaces of CUDA memory.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Returns the number of bytes to allocate, at least 1: for 0 bytes CUDA returns null or an error, but a memory space
/// must return memory or throw.
[[nodiscard]] constexpr std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

}  // namespace detail

/// A memory space of device memory, allocated by cudaMalloc and aligned to 256 bytes. Deallocation synchronises the
/// device, as cudaFree does, so use a pool for frequent allocations. Thread-safe.
class device_space {
   public:
    /// Constructs a space for a device; makes no CUDA call.
    ///
    /// \param device_id  device of the memory
    constexpr explicit device_space(std::int32_t device_id = 0) noexcept : device_id_{device_id} {}

    /// Allocates memory.
    ///
    /// \param bytes  size
    /// \return       device memory
    /// \throws error  errc::out_of_memory, device; errors of CUDA
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        device_guard const on{device_id_};
        detail::relaxed_capture_mode const relaxed;
        void* p = nullptr;
        check(cudaMalloc(&p, detail::at_least_one(bytes)), "cudaMalloc");
        return p;
    }
    /// Frees memory. Leaks it after CUDA has shut down.
    ///
    /// \param p  memory returned by `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaFree(p));
    }
    /// Returns the device of the memory.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda, device_id_}; }

   private:
    std::int32_t device_id_;
};

/// A memory space of pinned host memory, portable to all devices. Copies from and to it use the full bandwidth of the
/// link. Pinning takes much longer than a copy, so reuse the memory (`pinned_pool`). Deallocation synchronises, as
/// cudaFreeHost does. Thread-safe.
struct pinned_space {
    /// Allocates memory.
    ///
    /// \param bytes  size
    /// \return       pinned memory
    /// \throws error  errc::out_of_memory; errors of CUDA
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        detail::relaxed_capture_mode const relaxed;
        void* p = nullptr;
        check(cudaHostAlloc(&p, detail::at_least_one(bytes), cudaHostAllocPortable), "cudaHostAlloc");
        return p;
    }
    /// Frees memory. Leaks it after CUDA has shut down.
    ///
    /// \param p  memory returned by `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaFreeHost(p));
    }
    /// Returns the device of the memory, cuda_host.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_host, 0}; }
};

/// A memory space of managed memory, accessible from the host and all GPUs; pages migrate on access. Deallocation
/// synchronises, as cudaFree does. Thread-safe.
struct managed_space {
    /// Allocates memory.
    ///
    /// \param bytes  size
    /// \return       managed memory
    /// \throws error  errc::out_of_memory; errors of CUDA
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        detail::relaxed_capture_mode const relaxed;
        void* p = nullptr;
        check(cudaMallocManaged(&p, detail::at_least_one(bytes), cudaMemAttachGlobal), "cudaMallocManaged");
        return p;
    }
    /// Frees memory. Leaks it after CUDA has shut down.
    ///
    /// \param p  memory returned by `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaFree(p));
    }
    /// Returns the device of the memory, cuda_managed.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_managed, 0}; }
};

}  // namespace FERRY_NAMESPACE::cuda
