// ferry: options of sessions, share, attach and topics, the counts of a session, and the copies of a share.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/fwd.hpp>
#include <ferry/wire/descriptor.hpp>

#include <optional>
#include <span>
#include <variant>

namespace FERRY_NAMESPACE::ipc {

class session;

/// A tensor or a column of a list that is shared as one descriptor.
using item = std::variant<managed_tensor, column>;

/// Kind of a segment.
enum class segment_kind : std::uint8_t {
    named,      ///< a file of mode 0600 in /dev/shm, opened by its name
    anonymous,  ///< a memfd, opened by its file descriptor, and freed when no process has it
};

/// Options of a session.
struct session_options {
    /// Maximum number of unused mappings kept for later attaches; the least recently used ones are removed first. 0
    /// keeps none. Because a session has no thread, an unused mapping whose share is closed stays, within this limit
    /// and `unused_bytes`, until a later call removes it: a share, an attach that makes a mapping, `session::collect`,
    /// or the release of a tensor, which checks for closed shares at most once in 1 ms.
    std::size_t unused_mappings = 64;
    /// Kind of the segments that the session or `shared_space` allocates. A share of device memory has a segment as
    /// well, without data. Anonymous segments need no /dev/shm and are not limited by its size (64 MiB in many
    /// containers), are freed when all processes that use them have ended, even if killed, and have a sealed size, so
    /// that importers need not trust the exporter. But importers also need `shared::files`, which must be sent over a
    /// Unix socket.
    segment_kind segments = segment_kind::named;
    /// Maximum number of bytes of the unused mappings together.
    std::uint64_t unused_bytes = std::uint64_t{1} << 30;
};

/// Counts of a session.
struct session_counts {
    std::size_t shares = 0;     ///< number of open shares
    std::size_t mappings = 0;   ///< number of mappings of memory of other processes
    std::size_t unused = 0;     ///< number of mappings that no tensor uses
    std::size_t condemned = 0;  ///< number of closed shares of device memory that an importer still maps
};

/// Options of `share`. An aggregate whose order of members is frozen.
struct share_options {
    /// Session that records the share; borrowed. If null, this process can neither find the share again nor attach it
    /// as an alias.
    ipc::session* session = nullptr;
    /// With if_needed, memory that cannot be shared in place is copied; with never, and with `share_only`, such memory
    /// is an error. With always, the tensor is copied into an allocation of its own.
    copy_policy copy{};
    /// Stream on which the data is ready. The default for an array is the stream that its adapter returns.
    stream_token ready_on{};
    /// Shares host memory in an anonymous segment read-only, and seals it. Afterwards no process, including this one,
    /// can write to it, and `session::sealed` is true in importers. Memory that is pinned (cudaHostRegister, a
    /// transfer) is not frozen; if it has been shared read-only before, this process cannot write to it after the
    /// attempt either.
    bool freeze = false;
};

/// Options of `attach`, `attach_column` and `attach_list`. An aggregate whose order of members is frozen.
struct attach_options {
    /// Session that caches the mapping; borrowed. If null, the mapping is made for this tensor alone.
    ipc::session* session = nullptr;
    /// Stream on which the data will be used. It waits for the work that the exporter queued. When the tensor is
    /// dropped, an event on the stream is passed to the exporter. Without a stream the host waits, and no work that
    /// uses the tensor may be pending when it is dropped. A tensor that is dropped while its stream is captured is
    /// counted as in use until this process ends, because the time at which a graph runs is unknown.
    stream_token stream{};
    /// Device on which to open device memory; if empty, the device of the exporter, found by its UUID. Memory of a CUDA
    /// pool stays on its device, and this device gets access to it.
    std::optional<ferry::device> device{};
    /// File descriptors received with the descriptor, one for each of its memories, -1 where none is needed: the file
    /// of a CUDA pool, or `shared::file` of an anonymous segment. If both are needed, `shared::files` follow the files
    /// of all memories. Borrowed during the call.
    std::span<int const> files{};
};

/// Options of publishers, subscribers and registries. An aggregate whose order of members is frozen.
struct topic_options {
    /// Directory of the names, which only this user can enter (mode 0700), and which is created if it is missing.
    /// If empty, `ferry` in the directory that XDG_RUNTIME_DIR names; if that is not set, /dev/shm/ferry-<uid>.
    std::string directory{};
    /// Converts descriptors to text for readers without ferry, such as `[](auto& d) { return ferry::wire::to_json(d);
    /// }`. If null, only their bytes are published.
    std::string (*text)(wire::descriptor const&) = nullptr;
};

/// The copies that `share` made.
struct share_copies {
    std::uint64_t bytes = 0;  ///< number of bytes copied, without padding
    /// For a column or a list, the path and kind of each buffer, such as `orders.price: data`.
    std::vector<std::string> buffers{};
    /// The reason why the first copied memory could not be shared in place; null if nothing was copied, or a copy was
    /// requested.
    char const* reason = nullptr;

    /// Returns whether anything was copied.
    [[nodiscard]] explicit operator bool() const noexcept { return bytes != 0; }
};

}  // namespace FERRY_NAMESPACE::ipc
