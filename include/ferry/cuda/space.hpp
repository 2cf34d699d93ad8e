// ferry: memory spaces of CUDA memory.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/space/memory_space.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Returns the number of bytes to allocate, at least 1: for 0 bytes CUDA returns null or an error, but a memory space
/// must return memory or throw.
[[nodiscard]] constexpr std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

/// Returns whether `test` holds for the first and the last byte of a tensor with elements.
template <class Test>
[[nodiscard]] bool at_both_ends(tensor_view const& v, Test test) {
    auto const reach = ferry::detail::reach_of(v);
    auto const* const data = static_cast<std::byte const*>(v.data());
    return test(data - reach.below) && test(data + reach.above - 1);
}
/// Returns whether the driver knows the memory of a tensor with elements as memory of `d`.
/// \throws error  errors of device_of_pointer
[[nodiscard]] inline bool is_memory_of(tensor_view const& v, ferry::device d) {
    return at_both_ends(v, [&](void const* p) { return is_same_device(device_of_pointer(p), d); });
}

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
    /// Returns whether a tensor lies in memory of cudaMalloc on this device.
    ///
    /// \param v  tensor with elements
    /// \return   false for memory of pools, for virtual memory, and for memory of another process
    /// \throws error  errors of device_of_pointer
    [[nodiscard]] bool contains(tensor_view const& v) const {
        return detail::is_memory_of(v, device()) && detail::at_both_ends(v, detail::is_of_malloc);
    }

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
    /// Returns whether a tensor lies in pinned memory, allocated or registered.
    ///
    /// \param v  tensor with elements
    /// \throws error  errors of device_of_pointer
    [[nodiscard]] bool contains(tensor_view const& v) const { return detail::is_memory_of(v, device()); }
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
    /// Returns whether a tensor lies in managed memory.
    ///
    /// \param v  tensor with elements
    /// \throws error  errors of device_of_pointer
    [[nodiscard]] bool contains(tensor_view const& v) const { return detail::is_memory_of(v, device()); }
};

}  // namespace FERRY_NAMESPACE::cuda
