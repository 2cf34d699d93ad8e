// ferry: functions of the driver API, looked up at run time, so that programs start without a driver and do not link to
// its library.
#pragma once

#include <ferry/cuda/error.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::cuda::detail {

/// The oldest driver that a program compiled with this toolkit runs on, in the form of CUDART_VERSION.
inline constexpr unsigned oldest_driver = CUDART_VERSION >= 13000 ? 13000 : CUDART_VERSION >= 12080 ? 12080 : 12060;

/// Finds the entry point of a driver function in the version of a driver, by default of the oldest one.
/// \throws error  errc::no_driver
template <class Function>
void find_driver_function(Function*& found_at, char const* name, unsigned version = oldest_driver) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    check(cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found),
          "cudaGetDriverEntryPointByVersion");
    if (entry == nullptr || found != cudaDriverEntryPointSuccess)
        ferry::detail::fail(errc::no_driver, name,
                            message{"the driver does not have this function: install a driver for CUDA "}
                                << oldest_driver / 1000 << "." << oldest_driver % 1000 / 10 << " or later");
    found_at = reinterpret_cast<Function*>(entry);
}

/// The driver functions that ferry calls: those without a counterpart in the runtime, and those on the path of every
/// exchange, which are faster than their runtime counterparts.
struct driver_api {
    CUresult (*pointer_get_attribute)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
    CUresult (*memory_access)(unsigned long long*, CUmemLocation const*, CUdeviceptr) = nullptr;
    CUresult (*device_uuid)(CUuuid*, CUdevice) = nullptr;
    CUresult (*primary_state)(CUdevice, unsigned*, int*) = nullptr;
    CUresult (*primary_retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*primary_release)(CUdevice) = nullptr;
    CUresult (*context_current)(CUcontext*) = nullptr;
    CUresult (*context_set_current)(CUcontext) = nullptr;
    CUresult (*context_id)(CUcontext, unsigned long long*) = nullptr;
    CUresult (*exchange_capture_mode)(CUstreamCaptureMode*) = nullptr;
    CUresult (*stream_is_capturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
    CUresult (*stream_device)(CUstream, CUdevice*) = nullptr;
    CUresult (*stream_id)(CUstream, unsigned long long*) = nullptr;
    CUresult (*stream_wait_event)(CUstream, CUevent, unsigned) = nullptr;
    CUresult (*event_record)(CUevent, CUstream) = nullptr;
    // Before CUDA 12.8, instead of stream_device, and instead of functions that the runtime lacks.
    CUresult (*stream_context)(CUstream, CUcontext*) = nullptr;
    CUresult (*library_load)(CUlibrary*, void const*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                             unsigned) = nullptr;
    CUresult (*library_kernel)(CUkernel*, CUlibrary, char const*) = nullptr;
    CUresult (*library_unload)(CUlibrary) = nullptr;
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                       void**, void**) = nullptr;

    driver_api() {
        find_driver_function(pointer_get_attribute, "cuPointerGetAttribute");
        find_driver_function(memory_access, "cuMemGetAccess");
        find_driver_function(device_uuid, "cuDeviceGetUuid");
        find_driver_function(primary_state, "cuDevicePrimaryCtxGetState");
        find_driver_function(primary_retain, "cuDevicePrimaryCtxRetain");
        find_driver_function(primary_release, "cuDevicePrimaryCtxRelease");
        find_driver_function(context_current, "cuCtxGetCurrent");
        find_driver_function(context_set_current, "cuCtxSetCurrent");
        find_driver_function(context_id, "cuCtxGetId");
        find_driver_function(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
        find_driver_function(stream_is_capturing, "cuStreamIsCapturing");
        find_driver_function(stream_id, "cuStreamGetId");
        find_driver_function(stream_wait_event, "cuStreamWaitEvent");
        find_driver_function(event_record, "cuEventRecord");
        if constexpr (oldest_driver >= 12080) {
            find_driver_function(stream_device, "cuStreamGetDevice");
        } else {
            find_driver_function(stream_context, "cuStreamGetCtx", 12000);  // of 12.5: has a parameter more
            find_driver_function(library_load, "cuLibraryLoadData");
            find_driver_function(library_kernel, "cuLibraryGetKernel");
            find_driver_function(library_unload, "cuLibraryUnload");
            find_driver_function(launch, "cuLaunchKernel");
        }
    }

    /// Returns the device of a stream. On drivers before CUDA 12.8, makes its context current to ask for the device.
    [[nodiscard]] CUresult get_stream_device(CUstream s, CUdevice* id) const {
        if constexpr (oldest_driver >= 12080) {
            return stream_device(s, id);
        } else {
            CUcontext before = nullptr, own = nullptr;
            CUresult r = stream_context(s, &own);
            if (r == CUDA_SUCCESS) r = context_current(&before);
            if (r == CUDA_SUCCESS && own != before) r = context_set_current(own);
            if (r != CUDA_SUCCESS) return r;
            r = static_cast<CUresult>(cudaGetDevice(id));
            if (own != before) static_cast<void>(context_set_current(before));
            return r;
        }
    }
};

/// Returns the driver functions, which are looked up once per process. The next call repeats a lookup that failed.
/// \throws error  errc::no_driver
[[nodiscard]] FERRY_HIDDEN inline driver_api const& driver() {
    static driver_api const api;
    return api;
}

// The error codes of the two APIs have the same values.
static_assert(static_cast<int>(CUDA_ERROR_INVALID_VALUE) == static_cast<int>(cudaErrorInvalidValue) &&
              static_cast<int>(CUDA_ERROR_INVALID_HANDLE) == static_cast<int>(cudaErrorInvalidResourceHandle) &&
              static_cast<int>(CUDA_ERROR_ILLEGAL_ADDRESS) == static_cast<int>(cudaErrorIllegalAddress) &&
              static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) ==
                  static_cast<int>(cudaErrorStreamCaptureImplicit) &&
              static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) ==
                  static_cast<int>(cudaErrorStreamCaptureIsolation) &&
              static_cast<int>(CUDA_ERROR_DEINITIALIZED) == static_cast<int>(cudaErrorCudartUnloading));

/// Throws unless a call of the driver API succeeded. When this thread has no valid context, as before its first CUDA
/// call, `again` repeats the call through the runtime API, which creates a context or reports a more precise error.
template <class Again>
void check_driver(CUresult r, char const* call, Again&& again,
                  std::source_location where = std::source_location::current()) {
    if (r == CUDA_SUCCESS) [[likely]]
        return;
    bool const no_context =
        r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    check(no_context ? std::forward<Again>(again)() : static_cast<cudaError_t>(r), call, where);
}

/// Returns whether device memory was allocated in a context other than the primary context of its device. Memory of
/// pools belongs to no context.
[[nodiscard]] FERRY_HIDDEN inline bool is_of_foreign_context(void const* p, int device_id) {
    auto const& api = driver();
    CUcontext owner = nullptr, primary = nullptr;
    if (api.pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, reinterpret_cast<CUdeviceptr>(p)) !=
            CUDA_SUCCESS ||
        owner == nullptr)
        return false;
    // Whether a context is primary does not change during its lifetime, and context ids are not reused.
    constexpr int most_known = 16;
    thread_local unsigned long long primaries[most_known] = {};
    unsigned long long id = 0;
    bool const is_cacheable =
        device_id >= 0 && device_id < most_known && api.context_id(owner, &id) == CUDA_SUCCESS && id != 0;
    if (is_cacheable && primaries[device_id] == id) return false;
    unsigned flags = 0;
    int active = 0;
    if (api.primary_state(device_id, &flags, &active) != CUDA_SUCCESS) return false;
    if (active == 0) return true;  // retaining the primary context would create it
    if (api.primary_retain(&primary, device_id) != CUDA_SUCCESS) return false;
    static_cast<void>(api.primary_release(device_id));
    if (is_cacheable && owner == primary) primaries[device_id] = id;
    return owner != primary;
}

/// Returns the id of the current context, unique for the life of the process; 0 when there is none.
[[nodiscard]] inline unsigned long long context_id() {
    auto const& api = driver();
    CUcontext now = nullptr;
    unsigned long long id = 0;
    if (api.context_current(&now) != CUDA_SUCCESS || now == nullptr || api.context_id(now, &id) != CUDA_SUCCESS)
        return 0;
    return id;
}

/// Returns the id of the current context, or 0 when it is unknown. `device_id` is the current device; on a thread
/// without a context, the primary context of this device is made current.
/// \throws error  errors of CUDA
[[nodiscard]] inline unsigned long long context_id_of(std::int32_t device_id) {
    unsigned long long id = context_id();
    if (id == 0) {
        check(cudaSetDevice(device_id), "cudaSetDevice");
        id = context_id();
    }
    return id;
}

/// Returns the id of a device's primary context, which is created if needed; 0 when unknown.
[[nodiscard]] inline unsigned long long primary_context_id(std::int32_t device_id) {
    auto const& api = driver();
    CUcontext primary = nullptr;
    unsigned long long id = 0;
    if (api.primary_retain(&primary, device_id) != CUDA_SUCCESS) return 0;
    if (api.context_id(primary, &id) != CUDA_SUCCESS) id = 0;
    static_cast<void>(api.primary_release(device_id));
    return id;
}

/// Returns whether cudaMalloc of this process allocated the memory.
[[nodiscard]] inline bool is_of_malloc(void const* p) {
    int found = 0;
    return driver().pointer_get_attribute(&found, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                          reinterpret_cast<CUdeviceptr>(p)) == CUDA_SUCCESS &&
           found != 0;
}

/// Returns the memory pool from which device memory was allocated, or null.
[[nodiscard]] inline cudaMemPool_t pool_of(void const* p) {
    CUmemoryPool found = nullptr;
    if (driver().pointer_get_attribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, reinterpret_cast<CUdeviceptr>(p)) !=
        CUDA_SUCCESS)
        return nullptr;
    return found;
}

}  // namespace FERRY_NAMESPACE::cuda::detail
