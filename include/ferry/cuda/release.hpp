// ferry: gives stream-ordered device memory back, on any thread, at any time.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ferry::inline v0::cuda::detail {

/// Memory whose release would have spoilt a capture: the legacy stream must not be touched while a blocking stream of
/// its device is captured. It goes back with the next memory of that device.
struct parked_memory {
    struct entry {
        void* p;
        std::int32_t device_id;
    };
    std::mutex mutex;
    std::vector<entry> entries;

    /// Never destroyed: deleters run until the very end.
    [[nodiscard]] FERRY_HIDDEN static parked_memory& all() {
        static auto* const one = new parked_memory;
        return *one;
    }
};

/// Frees what was parked for the current device, unless a capture is in the way again.
inline void release_parked(std::int32_t device_id) {
    auto& parked = parked_memory::all();
    std::lock_guard const lock{parked.mutex};
    if (parked.entries.empty() || !is_free_of_captures(cudaStreamLegacy)) return;
    std::erase_if(parked.entries, [device_id](auto const& e) {
        if (e.device_id != device_id) return false;
        ignore(cudaFreeAsync(e.p, cudaStreamLegacy));  // mutant: cuda_release_parked
        return true;
    });
}

/// Gives memory back once the legacy default stream of its device gets there; waits for nothing, spoils no capture.
/// When CUDA is gone, or memory is too short to remember it, it is leaked (R66).
inline void release_on_legacy(void* p, std::int32_t device_id) noexcept {
    try {
        device_guard const on{device_id};
        beside_captures const quietly;
        if (is_free_of_captures(cudaStreamLegacy)) {     // mutant: cuda_park
            ignore(cudaFreeAsync(p, cudaStreamLegacy));  // mutant: cuda_release
            release_parked(device_id);
        } else {
            auto& parked = parked_memory::all();
            std::lock_guard const lock{parked.mutex};
            parked.entries.push_back({p, device_id});
        }
    } catch (...) {
    }
}

}  // namespace ferry::inline v0::cuda::detail
