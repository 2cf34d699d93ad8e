// ferry: share_copies, what a share had to copy.
#pragma once

#include <ferry/config.hpp>

#include <cstdint>
#include <string>  // paths of buffers are made
#include <vector>  // as above

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// The copies that `share` made.
struct share_copies {
    std::uint64_t bytes = 0;  ///< without padding
    /// Of a column: the path and kind of each buffer, such as `orders.price: data`.
    std::vector<std::string> buffers{};

    /// Returns whether anything was copied.
    [[nodiscard]] explicit operator bool() const noexcept { return bytes != 0; }
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
