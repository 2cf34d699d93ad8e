// ferry: frees stream-ordered device memory, on any thread, at any time.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

namespace FERRY_NAMESPACE::cuda::detail {

/// Memory whose release would have invalidated a capture, because the legacy stream must not be used while a blocking
/// stream of its device is being captured. Freed when memory of that device is next released.
struct deferred_frees {
    struct entry {
        void* p;
        std::int32_t device_id;
    };
    std::mutex mutex;
    std::vector<entry> entries;

    /// Returns the list, which is never destroyed: deleters run during the shutdown of the process.
    [[nodiscard]] FERRY_HIDDEN static deferred_frees& all() {
        static auto* const one = new deferred_frees;
        return *one;
    }
};

/// Frees the deferred memory of the current device, unless a stream is being captured again.
inline void free_deferred(std::int32_t device_id) {
    auto& deferred = deferred_frees::all();
    std::lock_guard const lock{deferred.mutex};
    if (deferred.entries.empty() || !is_free_of_captures(cudaStreamLegacy)) return;
    std::erase_if(deferred.entries, [device_id](auto const& e) {
        if (e.device_id != device_id) return false;
        ignore(cudaFreeAsync(e.p, cudaStreamLegacy));
        return true;
    });
}

/// Frees memory in the order of its device's legacy default stream. Does not block and invalidates no capture. Leaks
/// the memory after CUDA has shut down, or if host memory for the deferred release cannot be allocated (R66).
inline void release_on_legacy(void* p, std::int32_t device_id) noexcept {
    try {
        device_guard const on{device_id};
        relaxed_capture_mode const relaxed;
        if (is_free_of_captures(cudaStreamLegacy)) {
            ignore(cudaFreeAsync(p, cudaStreamLegacy));
            free_deferred(device_id);
        } else {
            auto& deferred = deferred_frees::all();
            std::lock_guard const lock{deferred.mutex};
            deferred.entries.push_back({p, device_id});
        }
    } catch (...) {
    }
}

}  // namespace FERRY_NAMESPACE::cuda::detail
