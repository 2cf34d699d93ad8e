// ferry: deadlines.
#pragma once

#include <ferry/config.hpp>

#include <algorithm>
#include <chrono>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// Returns the time `limit` from now. Limits above a year count as a year, because larger sums overflow.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline(std::chrono::nanoseconds limit) noexcept {
    return std::chrono::steady_clock::now() +
           std::clamp<std::chrono::nanoseconds>(limit, std::chrono::nanoseconds{0}, std::chrono::years{1});
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
