// ferry: the allocation that device memory lies in, as the driver knows it.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>

namespace ferry::inline v0::cuda {

/// A whole allocation of one GPU. An interior pointer names the allocation, not the place in it.
struct allocation {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    /// Never used again in this process: memory allocated anew at one address differs; 0: not known.
    std::uint64_t id = 0;
    std::int32_t device_id = 0;      ///< -1: the driver does not say
    bool has_legacy_handle = false;  ///< of cudaMalloc: cudaIpcGetMemHandle takes it
    bool is_managed = false;
    bool is_of_pool = false;    ///< stream-ordered: the pool decides whether it can be exported
    unsigned handle_types = 0;  ///< cudaMemAllocationHandleType bits that can be asked of it

    /// Whether other allocations may lie in the same 2 MiB block: a handle opens whole blocks, and with them the
    /// neighbours.
    [[nodiscard]] constexpr bool may_have_neighbours() const noexcept { return bytes % block != 0; }
    static constexpr std::size_t block = std::size_t{2} << 20;
};

namespace detail {

/// Where the allocation around an address begins and ends. The attributes of a pointer of a pool speak of the pool's
/// block.
[[nodiscard]] inline CUresult range_around(CUdeviceptr at, CUdeviceptr& base, std::size_t& bytes) {
    using function = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
    static function const get = [] {
        function found = nullptr;
        find_driver_function(found, "cuMemGetAddressRange");
        return found;
    }();
    return get(&base, &bytes, at);
}

/// The same, by whichever of its words the driver says it; false: by none.
[[nodiscard]] inline bool find_range(CUdeviceptr at, CUdeviceptr& base, std::size_t& bytes) {
    auto const ask = [&](auto& out, CUpointer_attribute what) {
        return driver().pointer_get_attribute(&out, what, at) == CUDA_SUCCESS;
    };
    return range_around(at, base, bytes) == CUDA_SUCCESS ||
           (ask(base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) && ask(bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE));
}

/// The bytes from `p` to the end of what is mapped there. `said`: what is believed when the driver knows no range
/// around `p`, as it need not of another process's pool.
template <class Find = decltype(&find_range)>
[[nodiscard]] std::uint64_t mapped_from(void const* p, std::uint64_t said, Find find = find_range) {
    auto const at = reinterpret_cast<CUdeviceptr>(p);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    if (!find(at, base, bytes) || at < base || at - base >= bytes) return said;
    return bytes - (at - base);
}

}  // namespace detail

/// What the driver knows of the allocation around `p`. Does not synchronise.
///
/// \throws error  errc::foreign_pointer for memory that is not a GPU's;  errc::no_driver; what the driver reports
[[nodiscard]] inline allocation allocation_of(void const* p,
                                              std::source_location where = std::source_location::current()) {
    auto const& api = detail::driver();
    auto const at = reinterpret_cast<CUdeviceptr>(p);
    auto const ask = [&](auto& out, CUpointer_attribute what) {
        return api.pointer_get_attribute(&out, what, at) == CUDA_SUCCESS;
    };
    CUmemorytype type{};
    if (!ask(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) || type != CU_MEMORYTYPE_DEVICE)
        ferry::detail::fail(
            errc::foreign_pointer, "ferry::cuda::allocation_of",
            message{
                "the driver knows no device memory at this address: its producer names the wrong device, or has freed it"},
            where);
    allocation a;
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    unsigned long long id = 0;
    int device_id = -1;
    unsigned long long legacy = 0, managed = 0;  // whatever width the driver gives a boolean
    unsigned long long handle_types = 0;
    CUmemoryPool pool = nullptr;
    if (!detail::find_range(at, base, bytes) || bytes == 0)
        ferry::detail::fail(errc::driver, "cuPointerGetAttribute",
                            message{"the driver does not say where the allocation begins and ends"}, where);
    static_cast<void>(ask(id, CU_POINTER_ATTRIBUTE_BUFFER_ID));  // another process's memory has none on some drivers
    static_cast<void>(ask(device_id, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
    static_cast<void>(ask(legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
    static_cast<void>(ask(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED));
    static_cast<void>(ask(handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES));
    static_cast<void>(ask(pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE));
    a.base = reinterpret_cast<std::byte*>(base);
    a.bytes = bytes;
    a.id = id;
    a.device_id = device_id;
    a.has_legacy_handle = legacy != 0 && managed == 0;
    a.is_managed = managed != 0;
    a.is_of_pool = pool != nullptr;
    a.handle_types = static_cast<unsigned>(handle_types);
    return a;
}

}  // namespace ferry::inline v0::cuda
