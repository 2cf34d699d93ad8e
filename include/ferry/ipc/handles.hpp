// ferry: how a back end plugs memory that the host does not share by itself into shares.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/wire/descriptor.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>

namespace ferry::inline v0::ipc {

/// The bytes of an event's handle, in descriptors and in control pages.
inline constexpr std::size_t event_handle_bytes = 64;
/// A handle of an event, as its driver fills it.
using event_handle = std::array<std::byte, event_handle_bytes>;

/// What is needed to open memory beside its description.
struct opening {
    /// The device to open it on; nothing: the one with the description's UUID.
    std::optional<ferry::device> where{};
    /// An open file that came beside the descriptor: a pool's, an anonymous segment's, or -1. Borrowed for the call.
    int file = -1;
};

/// What a back end keeps on the exporter's side for as long as some importer may use the memory: the ready event, most
/// often. The owner of the memory is not in here; it dies later.
///
/// - `description()`: kind, type, device, id, allocation, offset, length, handle and ready of a wire::memory. The name
/// is
///   ipc's to fill in. The id is one that the allocation's address never gets again (CUDA: the buffer id).
/// - `wait_ready(on)`: as opened_memory's, for tensors that the exporting process attaches itself.
/// - `is_done(handle)`: whether the work that an importer recorded under this event handle when it dropped the memory
/// has
///   run. Never blocks. When the handle cannot be opened it is false: the caller waits for that process to end.
/// - `order_after(handle, on)`: work queued on `on` later runs after it; with no stream the host waits. False: as
/// above.
template <class E>
concept exported_memory =
    std::move_constructible<E> && requires(E& e, E const& c, event_handle const& done, stream_token on) {
        { c.description() } -> std::convertible_to<wire::memory const&>;
        e.wait_ready(on);
        { e.is_done(done) } -> std::same_as<bool>;
        { e.order_after(done, on) } -> std::same_as<bool>;
    };

/// Memory of another process, open here; its destructor first waits for all that `record_done` marked, then closes it,
/// on any thread, and survives the end of the SDK: who finds it closed knows that the work is done.
///
/// - `data()`: the first byte of the exported range (not of the allocation).
/// - `device()`: where it is, as numbered in this process.
/// - `wait_ready(memory, on)`: work queued on `on` later sees what was written before the share (`memory.ready`); with
/// a token
///   that names no stream the host waits, unless it is no_sync.
/// - `record_done(on, out)`: marks all work queued on `on` by now, and writes the handle of an event to `out` that
/// stands for
///   it and for all that was marked before, on whatever streams: the exporter hears of the last handle alone. The event
///   stays this memory's until the destructor has waited. False when there was nothing to mark, or the host has waited
///   instead; the handles given out before stand. Called by one thread at a time.
template <class O>
concept opened_memory = std::move_constructible<O> &&
                        requires(O& o, O const& c, wire::memory const& m, stream_token on, event_handle& out) {
                            { c.data() } -> std::convertible_to<void*>;
                            { c.device() } -> std::same_as<ferry::device>;
                            o.wait_ready(m, on);
                            { o.record_done(on, out) } -> std::same_as<bool>;
                        };

/// A back end that can share its memory with other processes. Not required: that it keeps anything; all state is in
/// what it returns, and in the session. What it returns may outlive it only if it says so.
///
/// - `exports(device)`: whether memory there is shared by handles of this back end. Host memory is not: segments carry
/// it.
/// - `refusal(range, device)`: null when a handle can be made for memory that lies there; else one sentence that says
/// why
///   not, such as `it comes from a stream-ordered pool`.
/// - `allocate_exportable(device, bytes, on)`: fresh memory that `refusal` accepts, for copies.
/// - `export_memory(range, device, ready_on)`: makes the handle, and an event after all that is queued on `ready_on`,
/// which
///   has been recorded when it returns. Does not block the host, unless it is out of events.
/// - `opens(memory)`: whether such a description is its business.
/// - `open_memory(memory, opening)`: opens it. \throws error  errc::stale_handle, device_not_found, no_peer_access,
///   already_mapped, same_process, no_driver, out_of_range, permission
template <class B>
concept handle_back_end = back_end<B> && requires(B& b, ferry::device d, byte_range const& r, std::size_t n,
                                                  stream_token on, wire::memory const& m, opening const& o) {
    { b.exports(d) } -> std::same_as<bool>;
    { b.refusal(r, d) } -> std::convertible_to<char const*>;
    { b.allocate_exportable(d, n, on) } -> owned_memory;
    { b.export_memory(r, d, on) } -> exported_memory;
    { b.opens(m) } -> std::same_as<bool>;
    { b.open_memory(m, o) } -> opened_memory;
};

}  // namespace ferry::inline v0::ipc
