// ferry: shares CUDA memory with other processes through the IPC handles of the CUDA runtime.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/detail/events/completion_event.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc/allocation.hpp>
#include <ferry/cuda/ipc/device_uuid.hpp>
#include <ferry/cuda/ipc/event.hpp>
#include <ferry/cuda/ipc/memory.hpp>
#include <ferry/cuda/ipc/pool.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/wire/descriptor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace FERRY_NAMESPACE::cuda {

/// Options for sharing CUDA memory. The order of the members is stable, so that designated initialisers remain valid.
struct sharing_options {
    /// Whether memory that may share a 2 MiB block with other allocations is copied before it is shared. A handle maps
    /// whole blocks, and would expose these allocations as well.
    bool isolate = false;
    /// Whether memory of pools that can be exported as a file descriptor is shared without a copy. The pool's file
    /// descriptor must then be sent to the importer over a Unix socket, in addition to the description. If false, such
    /// memory is copied. Memory of other pools is always copied.
    ///
    /// A process must map such memory only once. All `shareable` objects of a program therefore share one table of
    /// mappings. A shared library has its own table: import such memory either in the program or in the library, not
    /// in both.
    bool pools = false;
    /// Maximum number of interprocess events for each device. An export with a stream uses one event for its lifetime,
    /// and so does a mapping that has been used on a stream. When no event is free, the host waits for the stream
    /// instead.
    std::size_t most_events = 256;
};

namespace detail {

[[nodiscard]] inline ipc_handle to_handle(std::vector<std::byte> const& bytes, char const* what) {
    ipc_handle out;
    if (bytes.size() != out.size())
        ferry::detail::fail(errc::bad_descriptor, "ferry::cuda::shareable",
                            message{"the "} << what << " has " << std::uint64_t{bytes.size()}
                                            << " bytes, expected 64: get a new descriptor from the exporter");
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return out;
}

/// A mapping of another process's allocation: owned, or shared with other users in this process.
using any_mapping = std::variant<ipc_memory, pool_memories::use>;

/// Calls `ask` with the mapping.
template <class Ask>
[[nodiscard]] auto visit_mapping(any_mapping const& mapping, Ask ask) {
    return std::visit(
        [&](auto const& m) {
            if constexpr (requires { *m; }) return ask(*m);
            else return ask(m);
        },
        mapping);
}

/// Checks the description, which another process wrote, against `mapped`, the number of bytes mapped.
inline void require_inside(wire::memory const& m, std::uint64_t mapped) {
    if (m.offset > mapped || m.length > mapped - m.offset)
        ferry::detail::fail(errc::out_of_range, "ferry::ipc::attach",
                            message{"the descriptor describes "} << m.length << " bytes at offset " << m.offset
                                                                 << " of an allocation of " << mapped
                                                                 << " bytes: get a new descriptor from the exporter");
}

/// Creates a stream, even while another thread is capturing a stream. The new stream may be destroyed while its work is
/// still queued.
[[nodiscard]] inline stream make_quiet_stream(std::int32_t device_id) {
    relaxed_capture_mode const relaxed;
    return stream{device_id};
}

/// Makes a stream of any device wait for an interprocess event. Does not block.
inline void enqueue_wait(ipc_event const& e, stream_token on, char const* api) {
    require_stream(on, api);
    std::int32_t const device_id = device_of(on, api);
    if (device_id == e.device_id()) {
        device_guard const current{device_id};
        require_uncaptured_default(on, api);
        return e.enqueue_wait(handle_of(on));
    }
    // A stream on the event's device waits for the event, and `on` waits for that stream.
    auto const between = make_quiet_stream(e.device_id());
    {
        device_guard const current{e.device_id()};
        e.enqueue_wait(between.get());
    }
    cuda::order(between, on);
}

}  // namespace detail

/// The description of memory that this process exported, and the event after which its data is ready. Satisfies
/// `ferry::ipc::exported_memory`.
class exported_allocation {
   public:
    /// Takes ownership of a description of data that is ready.
    ///
    /// \param description  description for importers, without an event
    /// \param device_id    device of the memory
    /// \param events       events of the process, to which the destructor returns that of `record_ready`
    exported_allocation(wire::memory description, std::int32_t device_id, std::shared_ptr<detail::ipc_events> events)
        : description_{std::move(description)}, device_id_{device_id}, events_{std::move(events)} {}
    exported_allocation(exported_allocation&& other) noexcept
        : description_{std::move(other.description_)},
          device_id_{other.device_id_},
          events_{std::move(other.events_)},
          ready_{std::exchange(other.ready_, std::nullopt)} {}
    exported_allocation& operator=(exported_allocation&&) = delete;
    ~exported_allocation() {
        if (!ready_) return;
        try {
            events_->of(device_id_).put(std::move(*ready_));
        } catch (...) {  // not reached: the pool of this device exists already
        }
    }

    /// Returns the description that importers need to open the memory.
    [[nodiscard]] wire::memory const& description() const noexcept { return description_; }

    /// Makes a stream of this process wait until the data is ready. Other processes open the event and wait for it
    /// themselves. Without a stream, blocks the host.
    ///
    /// \param on  stream that waits, {} for the host, or stream_token::no_sync() to do nothing
    /// \throws error  errc::stream, capturing; errors of CUDA
    void wait_ready(stream_token on) const {
        if (!ready_ || on.is_no_sync()) return;
        if (!on.names_stream()) return ready_->wait();
        detail::enqueue_wait(*ready_, on, "ferry::ipc::attach");
    }
    /// Records the event after all work queued on a stream of any device, and adds it to the description. When no event
    /// is free, the host waits for the stream instead. Without a stream, does nothing.
    ///
    /// \param on  stream of the work that writes the data
    /// \throws error  errc::stream, capturing; errors of CUDA
    void record_ready(stream_token on) {
        if (!on.names_stream()) return;
        constexpr auto api = "ferry::ipc::share";
        detail::require_stream(on, api);
        std::int32_t const stream_device = detail::device_of(on, api);
        if (!ready_) ready_ = events_->of(device_id_).take();
        if (!ready_) return cuda::wait(on);
        {
            device_guard const current{device_id_};
            if (stream_device == device_id_) {
                detail::require_no_capture(detail::handle_of(on), api);
                ready_->record(detail::handle_of(on));
            } else {  // an event can only be recorded on its own device
                auto const between = detail::make_quiet_stream(device_id_);
                cuda::order(on, between);
                ready_->record(between.get());
            }
        }
        auto const event = ready_->handle();
        description_.ready.assign(event.begin(), event.end());
    }
    /// Makes a stream wait for an importer's work. Without a stream, blocks the host.
    ///
    /// \param done  handle that the importer sent
    /// \param on    stream that waits; {} for the host
    /// \return      true on success; false when the event cannot be opened or waited for
    [[nodiscard]] bool order_after(ipc::event_handle const& done, stream_token on) const noexcept {
        try {
            ipc_event const importer_event{done, device_id_};
            if (on.names_stream()) detail::enqueue_wait(importer_event, on, "ferry::cuda::shareable");
            else importer_event.wait();
            return true;
        } catch (...) {
            return false;
        }
    }

   private:
    wire::memory description_;
    std::int32_t device_id_;
    std::shared_ptr<detail::ipc_events> events_;
    std::optional<ipc_event> ready_;
};

/// Memory of another process, mapped in this process. Satisfies `ferry::ipc::opened_memory`. The destructor, which may
/// run on any thread, closes the mapping after the work that `record_done` recorded has completed.
class opened_allocation {
   public:
    /// Takes ownership of a mapping.
    ///
    /// \param mapping       mapping to own
    /// \param event_device  ordinal, in this process, of the exporter's device, to which all events belong; the
    ///                      mapping may be on another device
    /// \param offset        offset of the data in the mapping, in bytes
    /// \param events        events of this process
    opened_allocation(detail::any_mapping mapping, std::int32_t event_device, std::size_t offset,
                      std::shared_ptr<detail::ipc_events> events)
        : mapping_{std::move(mapping)}, event_device_{event_device}, offset_{offset}, events_{std::move(events)} {}
    opened_allocation(opened_allocation&&) noexcept = default;
    opened_allocation& operator=(opened_allocation&&) = delete;

    /// Returns the address of the first byte of the data.
    [[nodiscard]] std::byte* data() const noexcept {
        return detail::visit_mapping(mapping_, [](auto const& m) { return m.data(); }) + offset_;
    }
    /// Returns the device for which cudaMalloc memory was opened, or the exporter's device for pool memory.
    [[nodiscard]] ferry::device device() const noexcept {
        return {device_type::cuda, detail::visit_mapping(mapping_, [](auto const& m) { return m.device_id(); })};
    }

    /// Makes a stream wait until the exporter's data is ready. Without a stream, blocks the host.
    ///
    /// \param m   the exporter's description, with its event
    /// \param on  stream that waits, {} for the host, or stream_token::no_sync() to do nothing
    /// \throws error  errc::bad_descriptor, stale_handle, same_process, unsupported_platform, stream, capturing; errors
    ///                of CUDA
    void wait_ready(wire::memory const& m, stream_token on) const {
        if (m.ready.empty() || on.is_no_sync()) return;
        ipc_event const exporter_event{detail::to_handle(m.ready, "ready event's handle"), event_device_};
        if (!on.names_stream()) return exporter_event.wait();
        detail::enqueue_wait(exporter_event, on, "ferry::ipc::attach");
    }

    /// Records an event after all work queued on `on`. Does not block, except when no event is free or the event cannot
    /// be recorded, in which case the host waits for `on`. Without a stream, does nothing; the owner must then not
    /// release the memory before the last access to it has completed (R50). Not thread-safe.
    ///
    /// \param on   stream of the work that uses the memory; {} for none
    /// \param out  handle of the event, set when the result is true
    /// \return     true when the exporter must wait for `out`; false when no event was recorded
    /// \throws error  errc::stream, capturing; errors of CUDA
    [[nodiscard]] bool record_done(stream_token on, ipc::event_handle& out) {
        if (!on.names_stream()) return false;
        try {
            if (!done_)
                if (auto made = detail::completion_event::make(events_, event_device_)) done_.emplace(std::move(*made));
            if (done_) {
                done_->add(on);
                out = done_->handle();
                return true;
            }
        } catch (...) {  // falls back to the wait below, which reports errors
        }
        cuda::wait(on);
        return false;
    }

   private:
    detail::any_mapping mapping_;
    std::int32_t event_device_;
    std::size_t offset_;
    std::shared_ptr<detail::ipc_events> events_;
    std::optional<detail::completion_event> done_;  // last, so that it waits before the mapping is closed
};

/// The operations of `shareable`.
class sharing_back_end : public back_end_ref {
   public:
    /// Returns whether memory of a device is shared by handle.
    ///
    /// \param d  device of the memory
    /// \return   true for the device type cuda
    [[nodiscard]] bool exports(device d) const noexcept { return d.type == device_type::cuda; }

    /// Returns the reason why memory cannot be shared without a copy.
    ///
    /// \param r  bytes to share
    /// \return   the reason, in static storage; null when the memory can be shared without a copy
    /// \throws error  errors of `allocation_of`
    [[nodiscard]] char const* refusal(ipc::byte_range const& r, device) const {
        return refusal_of(allocation_of(r.begin));
    }

    /// Allocates shareable memory with cudaMalloc, in whole blocks of 2 MiB, so that its handle exposes no other
    /// allocation. The bytes after the first `bytes`, which may hold data of freed allocations, are set to 0 before
    /// later work on `on` runs or, without a stream, before the call returns.
    ///
    /// \param d      device of the memory
    /// \param bytes  size
    /// \param on     stream on which the memory is first used; {} for none
    /// \return       owner of the memory
    /// \throws error  errc::out_of_memory, device, capturing, stream; errors of CUDA
    [[nodiscard]] buffer<device_space> allocate_exportable(device d, std::size_t bytes, stream_token on) const {
        std::size_t const blocks = bytes / allocation::block + (bytes % allocation::block != 0 || bytes == 0);
        buffer<device_space> made{blocks * allocation::block, device_space{d.id}};
        if (std::size_t const rest = blocks * allocation::block - bytes; rest != 0) {
            device_guard const current{d.id};
            detail::relaxed_capture_mode const relaxed{detail::driver()};
            stream const own{d.id};
            check(cudaMemsetAsync(static_cast<std::byte*>(made.data()) + bytes, 0, rest, own.get()), "cudaMemsetAsync");
            if (on.names_stream()) cuda::order(own, on);
            else own.wait();
        }
        return made;
    }

    /// Exports memory by handle. The memory must stay allocated until all importers have closed it.
    ///
    /// \param r         bytes to share
    /// \param d         device of the memory
    /// \param ready_on  stream on which the data is ready; {} if the data is ready already
    /// \return          description, with the ready event; without an event if `ready_on` is {}, or if the host waited
    ///                  because no event was free
    /// \throws error  errc::not_exportable for memory that `refusal` refuses; errc::out_of_range, device, stream,
    ///                capturing; errors of `allocation_of`; errors of CUDA
    [[nodiscard]] exported_allocation export_memory(ipc::byte_range const& r, device d, stream_token ready_on) const {
        auto const a = allocation_of(r.begin);
        if (auto const* const why = refusal_of(a))
            ferry::detail::fail(errc::not_exportable, "ferry::cuda::shareable",
                                message{why} << ": allow a copy, or allocate the memory with cudaMalloc");
        auto const offset = static_cast<std::size_t>(r.begin - a.base);
        if (a.device_id != d.id)
            ferry::detail::fail(errc::device, "ferry::cuda::shareable",
                                message{"the tensor has device cuda:"}
                                    << d.id << ", but its memory is on cuda:" << a.device_id
                                    << ": correct the device that the producer reports");
        if (r.length > a.bytes || offset > a.bytes - r.length)
            ferry::detail::fail(
                errc::out_of_range, "ferry::cuda::shareable",
                message{"the tensor exceeds the allocation that contains its first byte, and a handle cannot refer to "
                        "several allocations: copy the tensor"});
        wire::memory m;
        bool const by_pool = is_shared_by_pool(a);
        auto const handle = by_pool ? handle_of_pool_memory(a.base) : handle_of_allocation(a);
        m.kind = by_pool ? wire::memory_kind::cuda_pool : wire::memory_kind::cuda_legacy;
        m.type = device_type::cuda;
        m.device = uuid_of(a.device_id);
        m.id = a.id;
        m.allocation = a.bytes;
        m.offset = offset;
        m.length = r.length;
        m.handle.assign(handle.begin(), handle.end());
        return with_ready(std::move(m), a.device_id, ready_on);
    }

    /// Returns whether the handle of memory that this process has opened can be given to other processes.
    ///
    /// \param m  description by its exporter
    /// \return   true for cudaMalloc memory, and with sharing_options::pools for memory of pools
    [[nodiscard]] bool passes_on(wire::memory const& m) const noexcept {
        return m.kind == wire::memory_kind::cuda_legacy || (m.kind == wire::memory_kind::cuda_pool && options_.pools);
    }
    /// Describes memory that this process has opened, by the handle of its exporter.
    ///
    /// \param m         description by its exporter
    /// \param ready_on  stream after whose queued work the data is ready; {} when it is ready
    /// \return          the description, with the event of this process in place of the exporter's
    /// \throws error  errc::device_not_found, stream, capturing; errors of CUDA
    [[nodiscard]] exported_allocation pass_on(wire::memory const& m, stream_token ready_on) const {
        return with_ready(m, device_with(m.device), ready_on);
    }

    /// Returns whether `open_memory` supports a kind of memory.
    ///
    /// \param m  description of the memory
    /// \return   true for memory described by a handle of the CUDA runtime
    [[nodiscard]] bool opens(wire::memory const& m) const noexcept {
        return m.kind == wire::memory_kind::cuda_legacy || m.kind == wire::memory_kind::cuda_pool;
    }

    /// Opens memory of another process. Does not wait until its data is ready.
    ///
    /// \param m    the exporter's description
    /// \param how  device on which to open it; for pool memory, the file descriptor, which remains owned by the caller
    /// \return     the mapping
    /// \throws error  errc::bad_descriptor, stale_handle, device, device_not_found, no_peer_access, already_mapped,
    ///                same_process, unsupported_platform, out_of_range; errc::permission for pool memory without its
    ///                file descriptor; errors of CUDA
    [[nodiscard]] opened_allocation open_memory(wire::memory const& m, ipc::opening const& how) const {
        std::int32_t const exporter_id = device_with(m.device), device_id = how.where ? how.where->id : exporter_id;
        auto const handle = detail::to_handle(m.handle, "memory's handle");
        auto mapping = [&]() -> detail::any_mapping {
            if (m.kind == wire::memory_kind::cuda_legacy) return ipc_memory{handle, device_id};
            if (how.file < 0)
                ferry::detail::fail(
                    errc::permission, "ferry::ipc::attach",
                    message{"the memory pool's file descriptor is missing: pass the file descriptor that was "
                            "received over the socket together with this ferry descriptor"});
            return pools_.open([&] { return imported_memory{imported_pool{how.file, device_id}, handle}; });
        }();
        void const* const base = detail::visit_mapping(mapping, [](auto const& open) { return open.data(); });
        // For pool memory whose size the driver does not report, the size in the description is used.
        auto const fallback = m.kind == wire::memory_kind::cuda_pool ? m.allocation : 0;
        detail::require_inside(m, detail::mapped_bytes_from(base, fallback));
        return {std::move(mapping), exporter_id, static_cast<std::size_t>(m.offset), events_};
    }

   protected:
    sharing_back_end(back_end_ref underneath, sharing_options const& options)
        : back_end_ref{underneath},
          options_{options},
          events_{std::make_shared<detail::ipc_events>(options.most_events)} {}

   private:
    [[nodiscard]] char const* refusal_of(allocation const& a) const noexcept {
        if (is_shared_by_pool(a)) return nullptr;
        if (auto const* const why = detail::why_not_exportable(a)) return why;
        if (options_.isolate && a.may_have_neighbours())
            return "its allocation may share a block of 2 MiB with others, which the handle would expose";
        return nullptr;
    }
    [[nodiscard]] bool is_shared_by_pool(allocation const& a) const noexcept {
        return options_.pools && a.is_of_pool && (a.handle_types & cudaMemHandleTypePosixFileDescriptor) != 0;
    }

    [[nodiscard]] exported_allocation with_ready(wire::memory m, std::int32_t device_id, stream_token ready_on) const {
        m.ready.clear();
        exported_allocation made{std::move(m), device_id, events_};
        made.record_ready(ready_on);
        return made;
    }

    sharing_options options_;
    std::shared_ptr<detail::ipc_events> events_;
    mutable detail::pool_memories pools_ = detail::pool_memories::of_process();
};

/// A CUDA back end that can share its memory with other processes (`ferry::ipc::handle_back_end`). Borrows another back
/// end, which executes all operations except those for sharing. Exported and opened memory may outlive this
/// object. Copies of this object share its events. All objects of a program share the mappings of pool memory
/// (sharing_options::pools). As thread-safe as the borrowed back end.
///
/// How memory is shared depends on its kind:
///
/// - cudaMalloc memory (but see sharing_options::isolate): shared without a copy; interior pointers and slices become
///   offsets in their allocation.
/// - stream-ordered memory (but see sharing_options::pools) and memory mapped with cuMemMap, for which no
///   cudaIpcMemHandle_t exists: copied into cudaMalloc memory, or refused under copy_policy::never.
/// - pinned and managed memory: copied into a shared-memory segment of the host, or refused under copy_policy::never.
///
/// The read-only flag is advisory: importers can write to the mapping.
template <back_end BackEnd = system_back_end const>
class shareable : public sharing_back_end {
   public:
    /// Borrows a back end.
    ///
    /// \param underneath  back end to borrow; must outlive this object and its copies
    /// \param options     how memory is shared
    explicit shareable(BackEnd& underneath, sharing_options const& options = {})
        : sharing_back_end{underneath, options} {}
    /// Borrows `ferry::cuda::system`.
    ///
    /// \param options  how memory is shared
    explicit shareable(sharing_options const& options = {})
        requires std::same_as<BackEnd, system_back_end const>
        : shareable{system, options} {}

    /// Returns the borrowed back end, whose other operations this one has.
    [[nodiscard]] BackEnd& underneath() const noexcept { return *static_cast<BackEnd*>(this->object()); }
};

template <class BackEnd>
shareable(BackEnd&, sharing_options const&) -> shareable<BackEnd>;
template <class BackEnd>
    requires back_end<BackEnd>
shareable(BackEnd&) -> shareable<BackEnd>;

}  // namespace FERRY_NAMESPACE::cuda
