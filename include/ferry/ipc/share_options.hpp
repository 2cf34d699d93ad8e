// ferry: share_options and share_copies: how memory is shared, and what had to be copied.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/request.hpp>

#include <cstdint>
#include <string>  // paths of buffers are made
#include <vector>  // as above

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

class session;

/// Options of `share`. An aggregate whose order of members is frozen.
struct share_options {
    /// Session that records the share; borrowed. Null: the share is neither found again nor attached as an alias.
    ipc::session* session = nullptr;
    /// if_needed: memory that cannot be shared in place is copied; never: that is an error; always: the tensor is
    /// copied into an allocation of its own.
    copy_policy copy{};
    /// Stream on which the data is ready. Default for an array: that of its adapter.
    stream_token ready_on{};
    /// Shares host memory in an anonymous segment read-only, and seals it: no process, including this one, can write
    /// it any more, and `session::sealed` is true in importers. Memory that is pinned (cudaHostRegister, a transfer) is
    /// not frozen; if it has been shared read-only before, this process cannot write it after the attempt either.
    bool freeze = false;
};

/// The copies that `share` made.
struct share_copies {
    std::uint64_t bytes = 0;  ///< without padding
    /// Of a column: the path and kind of each buffer, such as `orders.price: data`.
    std::vector<std::string> buffers{};

    /// Returns whether anything was copied.
    [[nodiscard]] explicit operator bool() const noexcept { return bytes != 0; }
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
