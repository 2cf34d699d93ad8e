// ferry: functions of the driver, looked up when they are needed: nothing links against it, so that programs start without one.
#pragma once

#include <ferry/cuda/error.hpp>

namespace ferry::cuda::detail {

/// The entry point of a driver function as CUDA 13.0 has it. \throws error  errc::no_driver
template <class Function>
[[nodiscard]] Function* driver_function(char const* name) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    check(cudaGetDriverEntryPointByVersion(name, &entry, 13000, cudaEnableDefault, &found), "cudaGetDriverEntryPointByVersion");
    if (entry == nullptr || found != cudaDriverEntryPointSuccess)
        ferry::detail::fail(errc::no_driver, name, message{"the driver has no such function: install a driver for CUDA 13.0 or later"});
    return reinterpret_cast<Function*>(entry);
}

/// What ferry asks of the driver beyond the runtime.
struct driver_api {
    CUresult (*pointer_get_attribute)(void*, CUpointer_attribute, CUdeviceptr) = driver_function<CUresult(void*, CUpointer_attribute, CUdeviceptr)>("cuPointerGetAttribute");
    CUresult (*primary_retain)(CUcontext*, CUdevice) = driver_function<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
    CUresult (*primary_release)(CUdevice) = driver_function<CUresult(CUdevice)>("cuDevicePrimaryCtxRelease");
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
    if (api.primary_retain(&primary, device_id) != CUDA_SUCCESS) return false;
    static_cast<void>(api.primary_release(device_id));
    return owner != primary;
}

}  // namespace ferry::cuda::detail
