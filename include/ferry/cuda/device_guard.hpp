// ferry: makes a device current for a scope.
#pragma once

#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <cstdint>
#include <source_location>

namespace FERRY_NAMESPACE::cuda {

/// Throws unless a CUDA call succeeded, and reports cudaErrorInvalidValue as errc::device. Use it for calls that return
/// this error for a nonexistent device; the other arguments of the call must be valid.
///
/// \param e      result of the call
/// \param call   name of the function called
/// \throws error  errors of `check`
inline void check_device(cudaError_t e, char const* call,
                         std::source_location where = std::source_location::current()) {
    check(e == cudaErrorInvalidValue ? cudaErrorInvalidDevice : e, call, where);
}

/// Makes a device current for this thread, and restores the previous device, or the previous context, at the end of the
/// scope. If the device is already current, makes only one CUDA call. Otherwise, initialises the primary contexts of
/// both devices; to avoid a context on device 0, call cudaSetDevice before the first exchange.
class device_guard {
   public:
    /// Makes a device current.
    ///
    /// \param id  ordinal of the device
    /// \throws error  errc::device; errors of CUDA
    explicit device_guard(std::int32_t id) {
        check(cudaGetDevice(&before_), "cudaGetDevice");
        if (before_ == id) return;
        if (detail::driver().context_current(&context_) != CUDA_SUCCESS) context_ = nullptr;
        check(cudaSetDevice(id), "cudaSetDevice");
        changed_ = true;
    }
    device_guard(device_guard const&) = delete;
    device_guard& operator=(device_guard const&) = delete;
    ~device_guard() {
        if (!changed_) return;
        if (cudaSetDevice(before_) != cudaSuccess) static_cast<void>(cudaGetLastError());
        CUcontext now = nullptr;
        auto const& api = detail::driver();  // does not throw: the constructor has called it
        if (context_ != nullptr && api.context_current(&now) == CUDA_SUCCESS && now != context_)
            static_cast<void>(api.context_set_current(context_));
    }

   private:
    CUcontext context_ = nullptr;
    int before_ = 0;
    bool changed_ = false;
};

}  // namespace FERRY_NAMESPACE::cuda
