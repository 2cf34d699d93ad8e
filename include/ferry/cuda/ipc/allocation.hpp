// ferry: properties of the device allocation that contains a pointer.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>

namespace FERRY_NAMESPACE::cuda {

/// The allocation of device memory that contains an address.
struct allocation {
    std::byte* base = nullptr;  ///< first byte
    std::size_t bytes = 0;
    /// Buffer ID of the driver, unique in the process even if an address is allocated again; 0 if unknown.
    std::uint64_t id = 0;
    std::int32_t device_id = 0;      ///< ordinal; -1 if unknown
    bool has_legacy_handle = false;  ///< allocated by cudaMalloc, so that cudaIpcGetMemHandle accepts it
    bool is_managed = false;
    bool is_of_pool = false;  ///< allocated from a memory pool; can be exported only together with the pool
    /// Handle types that the memory of a pool or of the virtual memory API supports, as bits of
    /// cudaMemAllocationHandleType.
    unsigned handle_types = 0;

    /// Returns whether other allocations may share a 2 MiB block with this one. An IPC handle maps whole blocks, so the
    /// importer could access these allocations as well.
    ///
    /// \return  true unless the allocation consists of whole blocks
    [[nodiscard]] constexpr bool may_have_neighbours() const noexcept { return bytes % block != 0; }
    static constexpr std::size_t block = std::size_t{2} << 20;
};

namespace detail {

/// Queries the address range of the allocation that contains `at`. For memory of a pool, pointer attributes would
/// report the pool's block instead.
[[nodiscard]] inline CUresult get_address_range(CUdeviceptr at, CUdeviceptr& base, std::size_t& bytes) {
    using function = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
    static function const get = [] {
        function found = nullptr;
        find_driver_function(found, "cuMemGetAddressRange");
        return found;
    }();
    return get(&base, &bytes, at);
}

/// Queries the address range of the allocation that contains `at`, through pointer attributes if `get_address_range`
/// fails. Returns false when both fail.
[[nodiscard]] inline bool find_range(CUdeviceptr at, CUdeviceptr& base, std::size_t& bytes) {
    auto const ask = [&](auto& out, CUpointer_attribute what) {
        return driver().pointer_get_attribute(&out, what, at) == CUDA_SUCCESS;
    };
    return get_address_range(at, base, bytes) == CUDA_SUCCESS ||
           (ask(base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) && ask(bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE));
}

/// Returns the number of mapped bytes from `p` to the end of its allocation, or `fallback` when the driver reports no
/// range around `p`, as for some pools of other processes.
template <class Find = decltype(&find_range)>
[[nodiscard]] std::uint64_t mapped_bytes_from(void const* p, std::uint64_t fallback, Find find = find_range) {
    auto const at = reinterpret_cast<CUdeviceptr>(p);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    if (!find(at, base, bytes) || at < base || at - base >= bytes) return fallback;
    return bytes - (at - base);
}

}  // namespace detail

/// Queries the driver for the allocation that contains `p`. Does not synchronise.
///
/// \param p      device memory, at any offset in its allocation
/// \return       the allocation; a property that the driver does not report is 0 or false, or -1 for the ordinal
/// \throws error  errc::foreign_pointer when `p` is not device memory; errc::no_driver; errc::driver
[[nodiscard]] inline allocation allocation_of(void const* p,
                                              std::source_location where = std::source_location::current()) {
    auto const& api = detail::driver();
    auto const at = reinterpret_cast<CUdeviceptr>(p);
    auto const ask = [&](auto& out, CUpointer_attribute what) {
        return api.pointer_get_attribute(&out, what, at) == CUDA_SUCCESS;
    };
    unsigned long long legacy = 0, managed = 0;  // wide enough for any size that the driver writes
    unsigned long long handle_types = 0;
    CUmemoryPool pool = nullptr;
    bool const has_handle = ask(legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) && legacy != 0;
    static_cast<void>(ask(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED));
    if (!has_handle) {
        CUmemorytype type{};
        if (!ask(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) || type != CU_MEMORYTYPE_DEVICE)
            ferry::detail::fail(errc::foreign_pointer, "ferry::cuda::allocation_of",
                                message{"the address is not in device memory: correct the device that the producer "
                                        "reports, or check that it has not freed the memory"},
                                where);
        static_cast<void>(ask(handle_types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES));
        static_cast<void>(ask(pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE));
    }
    allocation a;
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    unsigned long long id = 0;
    int device_id = -1;
    if (!detail::find_range(at, base, bytes) || bytes == 0)
        ferry::detail::fail(errc::driver, "cuPointerGetAttribute",
                            message{"the driver reports no address range for this allocation"}, where);
    static_cast<void>(ask(id, CU_POINTER_ATTRIBUTE_BUFFER_ID));  // absent for imported memory on some drivers
    static_cast<void>(ask(device_id, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
    a.base = reinterpret_cast<std::byte*>(base);
    a.bytes = bytes;
    a.id = id;
    a.device_id = device_id;
    a.has_legacy_handle = has_handle && managed == 0;
    a.is_managed = managed != 0;
    a.is_of_pool = pool != nullptr;
    a.handle_types = static_cast<unsigned>(handle_types);
    return a;
}

}  // namespace FERRY_NAMESPACE::cuda
