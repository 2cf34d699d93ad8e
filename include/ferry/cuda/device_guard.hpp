// ferry: the current device of a scope.
#pragma once

#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0::cuda {

/// As `check`, for calls to which a device that does not exist is an invalid value, and whose other values are ferry's
/// own.
inline void check_device(cudaError_t e, char const* call,
                         std::source_location where = std::source_location::current()) {
    check(e == cudaErrorInvalidValue ? cudaErrorInvalidDevice : e, call, where);
}

/// Makes a device current for this thread and what was current before it current again at the end, be it a context of
/// the user's own making. Costs one call when nothing changes. Both devices get a primary context: select yours before
/// you exchange.
/// \throws error  errc::device, no_driver
class device_guard {
   public:
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
        auto const& api = detail::driver();  // looked up before, so that it does not throw
        if (context_ != nullptr && api.context_current(&now) == CUDA_SUCCESS && now != context_)
            static_cast<void>(api.context_set_current(context_));
    }

   private:
    CUcontext context_ = nullptr;
    int before_ = 0;
    bool changed_ = false;
};

}  // namespace ferry::inline v0::cuda
