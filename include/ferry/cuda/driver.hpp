// ferry: functions of the driver, looked up when they are needed: nothing links against it, so that programs start without one.
#pragma once

#include <ferry/cuda/error.hpp>

namespace ferry::cuda::detail {

/// Finds the entry point of a driver function as CUDA 13.0 has it. \throws error  errc::no_driver
template <class Function>
void find_driver_function(Function*& found_at, char const* name) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    check(cudaGetDriverEntryPointByVersion(name, &entry, 13000, cudaEnableDefault, &found), "cudaGetDriverEntryPointByVersion");
    if (entry == nullptr || found != cudaDriverEntryPointSuccess)
        ferry::detail::fail(errc::no_driver, name, message{"the driver has no such function: install a driver for CUDA 13.0 or later"});
    found_at = reinterpret_cast<Function*>(entry);
}

/// What ferry asks of the driver beyond the runtime.
struct driver_api {
    CUresult (*pointer_get_attribute)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
    CUresult (*primary_state)(CUdevice, unsigned*, int*) = nullptr;
    CUresult (*primary_retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*primary_release)(CUdevice) = nullptr;
    CUresult (*context_current)(CUcontext*) = nullptr;
    CUresult (*context_set_current)(CUcontext) = nullptr;
    CUresult (*context_id)(CUcontext, unsigned long long*) = nullptr;

    driver_api() {
        find_driver_function(pointer_get_attribute, "cuPointerGetAttribute");
        find_driver_function(primary_state, "cuDevicePrimaryCtxGetState");
        find_driver_function(primary_retain, "cuDevicePrimaryCtxRetain");
        find_driver_function(primary_release, "cuDevicePrimaryCtxRelease");
        find_driver_function(context_current, "cuCtxGetCurrent");
        find_driver_function(context_set_current, "cuCtxSetCurrent");
        find_driver_function(context_id, "cuCtxGetId");
    }
};

/// Looked up once; immutable from then on. \throws error  errc::no_driver, at every call until there is one
[[nodiscard]] inline driver_api const& driver() {
    static driver_api const api;
    return api;
}

/// Whether device memory was allocated in a context of somebody's own making. Memory of pools belongs to none.
[[nodiscard]] inline bool is_of_foreign_context(void const* p, int device_id) {
    auto const& api = driver();
    CUcontext owner = nullptr, primary = nullptr;
    if (api.pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, reinterpret_cast<CUdeviceptr>(p)) != CUDA_SUCCESS || owner == nullptr)
        return false;
    unsigned flags = 0;
    int active = 0;
    if (api.primary_state(device_id, &flags, &active) != CUDA_SUCCESS) return false;
    if (active == 0) return true;  // retaining it would make one
    if (api.primary_retain(&primary, device_id) != CUDA_SUCCESS) return false;
    static_cast<void>(api.primary_release(device_id));
    return owner != primary;
}

/// A number that no two contexts of the process share, be the one made after the other is gone: of the current context; 0 when
/// there is none.
[[nodiscard]] inline unsigned long long context_id() {
    auto const& api = driver();
    CUcontext now = nullptr;
    unsigned long long id = 0;
    if (api.context_current(&now) != CUDA_SUCCESS || now == nullptr || api.context_id(now, &id) != CUDA_SUCCESS) return 0;
    return id;
}

/// The pool that device memory comes from; null for all other memory.
[[nodiscard]] inline cudaMemPool_t pool_of(void const* p) {
    CUmemoryPool found = nullptr;
    if (driver().pointer_get_attribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, reinterpret_cast<CUdeviceptr>(p)) != CUDA_SUCCESS)
        return nullptr;
    return found;
}

}  // namespace ferry::cuda::detail
