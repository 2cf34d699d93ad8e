// ferry: the current device of a scope.
#pragma once

#include <ferry/cuda/error.hpp>

#include <cstdint>

namespace ferry::cuda {

/// Makes a device current for this thread and the one before it current again at the end. Costs one call when nothing changes.
/// \throws error  errc::device, no_driver
class device_guard {
   public:
    explicit device_guard(std::int32_t id) {
        check(cudaGetDevice(&before_), "cudaGetDevice");
        if (before_ == id) return;
        check(cudaSetDevice(id), "cudaSetDevice");
        changed_ = true;
    }
    device_guard(device_guard const&) = delete;
    device_guard& operator=(device_guard const&) = delete;
    ~device_guard() {
        if (changed_) static_cast<void>(cudaSetDevice(before_));
    }

   private:
    int before_ = 0;
    bool changed_ = false;
};

}  // namespace ferry::cuda
