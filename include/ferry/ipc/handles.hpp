// ferry: the interface of back ends that share device memory by handles.
#pragma once

#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/wire/descriptor.hpp>

#include <concepts>
#include <optional>

namespace FERRY_NAMESPACE::ipc {

/// Size of the handle of an event, in descriptors and in control pages, in bytes.
inline constexpr std::size_t event_handle_bytes = 64;
/// Handle of an event, as its driver writes it.
using event_handle = std::array<std::byte, event_handle_bytes>;

/// Parameters for opening memory, in addition to its description.
struct opening {
    /// Device on which to open it; empty: the one with the UUID of the description.
    std::optional<ferry::device> where{};
    /// File descriptor received with the descriptor, of a pool or an anonymous segment, or -1. Borrowed for the call.
    int file = -1;
};

/// State that a back end keeps in the exporting process while an importer may use the memory, such as the ready event.
/// It does not contain the owner of the memory, which is destroyed later.
///
/// - `description()`: kind, type, device, id, allocation, offset, length, handle and ready of a wire::memory; ferry
///   writes the name. The id is one that the address of the allocation never gets again (CUDA: the buffer ID).
/// - `wait_ready(on)`: as for opened_memory, for tensors that the exporting process attaches itself.
/// - `record_ready(on)`: importers that attach the memory after this call wait for all work queued on `on`, instead of
///   that recorded before; `description().ready` may change. With a token that names no stream nothing happens. Does
///   not block the host, unless no event is free.
/// - `order_after(handle, on)`: work queued on `on` after this call runs after the event; with no stream the host
///   waits. False when the handle cannot be opened.
template <class E>
concept exported_memory =
    std::move_constructible<E> && requires(E& e, E const& c, event_handle const& done, stream_token on) {
        { c.description() } -> std::convertible_to<wire::memory const&>;
        e.wait_ready(on);
        e.record_ready(on);
        { e.order_after(done, on) } -> ferry::detail::yields<bool>;
    };

/// Memory of another process, opened in this one. The destructor first waits for all work that `record_done` marked,
/// then closes the memory. It may run on any thread, and after the SDK has shut down. An observer that finds the memory
/// closed may therefore assume that the work has completed.
///
/// - `data()`: the first byte of the exported range (not of the allocation).
/// - `device()`: its device, as numbered in this process.
/// - `wait_ready(memory, on)`: work queued on `on` after this call sees the data written before the share
///   (`memory.ready`); with a token that names no stream the host waits, unless it is no_sync.
/// - `record_done(on, out)`: marks all work queued on `on` before this call, and writes to `out` the handle of an event
///   for it and for all work marked earlier on any stream: the exporter sees the last handle only. The memory owns
///   the event until the destructor has waited. False when there was nothing to mark, or the host has waited instead;
///   handles returned earlier remain valid. Called by one thread at a time.
template <class O>
concept opened_memory = std::move_constructible<O> &&
                        requires(O& o, O const& c, wire::memory const& m, stream_token on, event_handle& out) {
                            { c.data() } -> std::convertible_to<void*>;
                            { c.device() } -> std::same_as<ferry::device>;
                            o.wait_ready(m, on);
                            { o.record_done(on, out) } -> ferry::detail::yields<bool>;
                        };

/// A back end that can share its memory with other processes. It need not keep any state: all state is in the objects
/// that it returns, and in the session. Those may outlive the back end only if it documents so. Its operations, and
/// those of the objects that they return except `description`, `data` and `device`, may return `result<R>` instead of
/// R.
///
/// - `exports(device)`: whether this back end shares memory of the device by handles. False for host memory, which is
///   shared in segments.
/// - `export_memory(range, device, ready_on)`: makes the handle, and records an event after all work queued on
///   `ready_on`. Does not block the host, unless no event is free. \throws error  errc::not_exportable when no handle
///   can be made for this memory
/// - `refusal(range, device)`: the reason for errc::not_exportable, a sentence such as `it comes from a stream-ordered
///   pool`; null for memory that `export_memory` exports. Called only after that error.
/// - `allocate_exportable(device, bytes, on)`: allocates memory that `export_memory` exports, for copies.
/// - `opens(memory)`: whether this back end opens memory of such a description.
/// - `open_memory(memory, opening)`: opens it. \throws error  errc::stale_handle, device_not_found, no_peer_access,
///   already_mapped, same_process, no_driver, out_of_range, permission
///
/// Optional; without it, memory that was attached is copied when it is shared again:
///
/// - `pass_on(memory, ready_on)`: as `export_memory`, for memory that this process has opened with this description, of
///   which all but the event is kept. Called only if `passes_on(memory)`.
template <class B>
concept handle_back_end = back_end<B> && requires(B& b, ferry::device d, byte_range const& r, std::size_t n,
                                                  stream_token on, wire::memory const& m, opening const& o) {
    { b.exports(d) } -> ferry::detail::yields<bool>;
    requires std::convertible_to<ferry::detail::value_of<decltype(b.refusal(r, d))>, char const*>;
    requires owned_memory<ferry::detail::value_of<decltype(b.allocate_exportable(d, n, on))>>;
    requires exported_memory<ferry::detail::value_of<decltype(b.export_memory(r, d, on))>>;
    { b.opens(m) } -> ferry::detail::yields<bool>;
    requires opened_memory<ferry::detail::value_of<decltype(b.open_memory(m, o))>>;
};

namespace detail {

template <class B>
concept passing_back_end = requires(B& b, wire::memory const& m, stream_token on) {
    { b.passes_on(m) } -> ferry::detail::yields<bool>;
    requires exported_memory<ferry::detail::value_of<decltype(b.pass_on(m, on))>>;
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE::ipc
