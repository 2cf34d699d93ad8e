// ferry: shares CUDA memory with other processes: plugs the handles of the runtime into ferry::ipc.
// length: the two halves of a handle, made and opened, are read together
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/allocation.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/device_uuid.hpp>
#include <ferry/cuda/done_mark.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc_event.hpp>
#include <ferry/cuda/ipc_memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/pool_handle.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
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

namespace ferry::inline v0::cuda {

/// How CUDA memory is shared. An aggregate whose order of members is frozen.
struct sharing_options {
    /// Copy first what may lie in one block of 2 MiB with other allocations, which a handle would open as well.
    bool isolate = false;
    /// Share memory of exportable pools by the pool: its descriptor must then reach the importer beside the
    /// description, over a socket. Otherwise such memory is copied, and always that of pools without a file descriptor
    /// (fabric handles alone). CUDA has one mapping of such memory for a process, which every `shareable` of a program
    /// shares with the others. A shared library knows nothing of the program's: let one of the two attach it.
    bool pools = false;
    /// Interprocess events of one device at most: one for each share whose data a stream writes, and one for each
    /// mapping that was used on a stream, as long as there is the share or the mapping. Without a free one the host
    /// waits.
    std::size_t most_events = 256;
};

namespace detail {

[[nodiscard]] inline ipc_handle to_handle(std::vector<std::byte> const& bytes, char const* what) {
    ipc_handle out;
    if (bytes.size() != out.size())
        ferry::detail::fail(
            errc::bad_descriptor, "ferry::cuda::shareable",
            message{"the "} << what << " has " << std::uint64_t{bytes.size()} << " bytes, and CUDA's have 64");
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return out;
}

/// An allocation of another process: this one's own mapping of it, or one that others use as well.
using any_mapping = std::variant<ipc_memory, pool_memories::use>;

/// What `ask` says of the mapping, whoever it belongs to.
template <class Ask>
[[nodiscard]] auto of_mapping(any_mapping const& mapping, Ask ask) {
    return std::visit(
        [&](auto const& m) {
            if constexpr (requires { *m; }) return ask(*m);
            else return ask(m);
        },
        mapping);
}

/// The description is another process's word, and `mapped` the bytes that are there.
/// \throws error  errc::out_of_range
inline void require_inside(wire::memory const& m, std::uint64_t mapped) {
    if (m.offset > mapped || m.length > mapped - m.offset)  // mutant: cuda_ipc_bound
        ferry::detail::fail(errc::out_of_range, "ferry::ipc::attach",
                            message{"the descriptor speaks of "} << m.length << " bytes behind " << m.offset
                                                                 << " others, of an allocation of " << mapped);
}

/// A stream for what no capture is to see. It may be dropped while work is queued on it.
[[nodiscard]] inline stream make_quiet_stream(std::int32_t device_id) {
    beside_captures const quietly;
    return stream{device_id};
}

/// Makes a stream of any device wait for an event that processes share. Does not block.
inline void make_wait(ipc_event const& e, stream_token on, char const* api) {
    require_stream(on, api);
    std::int32_t const where = device_of(on, api);
    if (where == e.device_id()) {
        device_guard const current{where};
        require_free_default(on, api);
        return e.make_wait(handle_of(on));
    }
    // It is waited for on its own device; an event of this process carries it over.
    auto const between = make_quiet_stream(e.device_id());
    {
        device_guard const current{e.device_id()};
        e.make_wait(between.get());
    }
    cuda::order(between, on);
}

}  // namespace detail

/// Memory that this process shares, as `ferry::ipc::exported_memory`: its description, and the event after which it is
/// ready.
class exported_allocation {
   public:
    exported_allocation(wire::memory description, std::int32_t device_id, std::shared_ptr<detail::ipc_events> events,
                        std::optional<ipc_event> ready)
        : description_{std::move(description)},
          device_id_{device_id},
          events_{std::move(events)},
          ready_{std::move(ready)} {}
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
        } catch (...) {  // it was made by that pool: never
        }
    }

    [[nodiscard]] wire::memory const& description() const noexcept { return description_; }

    /// For this process; the others open the event. \throws error  errc::stream, capturing; what the driver reports
    void wait_ready(stream_token on) const {
        if (!ready_ || on.is_no_sync()) return;
        if (!on.names_stream()) return ready_->wait();
        detail::make_wait(*ready_, on, "ferry::ipc::attach");
    }
    /// Opens the importer's event and asks it. An event that cannot be opened died with its process, or will.
    [[nodiscard]] bool is_done(ipc::event_handle const& done) const noexcept {
        try {
            return ipc_event{done, device_id_}.is_done();
        } catch (...) {
            return false;
        }
    }
    [[nodiscard]] bool order_after(ipc::event_handle const& done, stream_token on) const noexcept {
        try {
            ipc_event const theirs{done, device_id_};
            if (on.names_stream()) detail::make_wait(theirs, on, "ferry::cuda::shareable");
            else theirs.wait();
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

/// Memory of another process, open in this one, as `ferry::ipc::opened_memory`. Closed by its destructor, on any
/// thread, once what `record_done` marked has run.
class opened_allocation {
   public:
    /// `event_device`: the exporter's, where its events are and this process's are made, wherever the memory is open.
    opened_allocation(detail::any_mapping mapping, std::int32_t event_device, std::size_t offset,
                      std::shared_ptr<detail::ipc_events> events)
        : mapping_{std::move(mapping)}, event_device_{event_device}, offset_{offset}, events_{std::move(events)} {}
    opened_allocation(opened_allocation&&) noexcept = default;
    opened_allocation& operator=(opened_allocation&&) = delete;

    [[nodiscard]] std::byte* data() const noexcept {
        return detail::of_mapping(mapping_, [](auto const& m) { return m.data(); }) + offset_;
    }
    [[nodiscard]] ferry::device device() const noexcept {
        return {device_type::cuda, detail::of_mapping(mapping_, [](auto const& m) { return m.device_id(); })};
    }

    /// \throws error  errc::stale_handle, stream, capturing; what the driver reports
    void wait_ready(wire::memory const& m, stream_token on) const {
        if (m.ready.empty() || on.is_no_sync()) return;
        ipc_event const theirs{detail::to_handle(m.ready, "ready event's handle"), event_device_};
        if (!on.names_stream()) return theirs.wait();
        detail::make_wait(theirs, on, "ferry::ipc::attach");
    }

    /// With no stream the host has nothing to wait for: whoever drops the memory is done with it (R50). By one thread
    /// at a time. Does not block, unless there is no event, or no stream to record it on: then the host waits for `on`.
    [[nodiscard]] bool record_done(stream_token on, ipc::event_handle& out) {
        if (!on.names_stream()) return false;
        try {
            if (!done_)
                if (auto made = detail::done_mark::make(events_, event_device_)) done_.emplace(std::move(*made));
            if (done_) {
                done_->add(on);
                out = done_->handle();
                return true;
            }
        } catch (...) {  // waiting does as well; if not even that can be done, it says so
        }
        cuda::wait(on);
        return false;
    }

   private:
    detail::any_mapping mapping_;
    std::int32_t event_device_;
    std::size_t offset_;
    std::shared_ptr<detail::ipc_events> events_;
    std::optional<detail::done_mark> done_;  // last, so that it waits before the mapping is closed
};

/// A CUDA back end that can share its memory with other processes (`ferry::ipc::handle_back_end`): everything else is
/// done by the back end underneath, which it borrows. What it shares and opens may outlive it. Thread-safe. A copy has
/// the same events, and the same memory of pools open.
///
/// Memory of cudaMalloc is shared as it is: interior pointers and slices name their allocation, and the description
/// says where in it they lie. Stream-ordered and virtual memory has no such handle: it is copied into memory that has
/// one, or refused under copy_policy::never, with the reason. Pinned and managed memory goes as memory of the host: it
/// is copied into a segment, or refused likewise. Read-only is a word of honour: the mapping can be written.
template <back_end BackEnd = system_back_end const>
class shareable : public ferry::detail::forwarding<BackEnd> {
   public:
    constexpr explicit shareable(BackEnd& underneath, sharing_options const& options = {})
        : ferry::detail::forwarding<BackEnd>{underneath},
          options_{options},
          events_{std::make_shared<detail::ipc_events>(options.most_events)} {}
    explicit shareable(sharing_options const& options = {})
        requires std::same_as<BackEnd, system_back_end const>
        : shareable{system, options} {}

    [[nodiscard]] bool exports(device d) const noexcept { return d.type == device_type::cuda; }

    [[nodiscard]] char const* refusal(ipc::byte_range const& r, device) const {
        auto const a = allocation_of(r.begin);
        if (is_shared_by_pool(a)) return nullptr;
        if (auto const* const why = detail::why_not_exportable(a)) return why;
        if (options_.isolate && a.may_have_neighbours())
            return "its allocation may lie in one block of 2 MiB with others, and a handle opens the block";
        return nullptr;
    }

    /// cudaMalloc'ed in whole blocks of 2 MiB, so that its handle opens nothing else. What lies behind `bytes` is zero
    /// once `on` has come here, and at once when `on` names no stream: what was freed there before does not travel.
    /// \throws error  errc::out_of_memory, capturing, stream; what the driver reports
    [[nodiscard]] buffer<device_space> allocate_exportable(device d, std::size_t bytes, stream_token on) const {
        std::size_t const blocks = bytes / allocation::block + (bytes % allocation::block != 0 || bytes == 0);
        buffer<device_space> made{blocks * allocation::block, device_space{d.id}};
        if (std::size_t const rest = blocks * allocation::block - bytes; rest != 0) {
            device_guard const current{d.id};
            detail::beside_captures const quietly{detail::driver()};
            stream const own{d.id};
            check(cudaMemsetAsync(static_cast<std::byte*>(made.data()) + bytes, 0, rest, own.get()), "cudaMemsetAsync");
            if (on.names_stream()) cuda::order(own, on);
            else own.wait();
        }
        return made;
    }

    /// \throws error  errc::not_exportable, out_of_range, stream; what the driver reports
    [[nodiscard]] exported_allocation export_memory(ipc::byte_range const& r, device d, stream_token ready_on) const {
        auto const a = allocation_of(r.begin);
        auto const offset = static_cast<std::size_t>(r.begin - a.base);
        if (a.device_id != d.id)
            ferry::detail::fail(errc::device, "ferry::cuda::shareable",
                                message{"the tensor says cuda:"} << d.id << ", the driver cuda:" << a.device_id);
        if (r.length > a.bytes || offset > a.bytes - r.length)
            ferry::detail::fail(
                errc::out_of_range, "ferry::cuda::shareable",
                message{
                    "the tensor reaches beyond the allocation that it begins in: it spans several, which no handle names"});
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
        auto ready = mark_ready(a.device_id, ready_on);
        if (ready) {
            auto const event = ready->handle();
            m.ready.assign(event.begin(), event.end());
        }
        return {std::move(m), a.device_id, events_, std::move(ready)};
    }

    [[nodiscard]] bool opens(wire::memory const& m) const noexcept {
        return m.kind == wire::memory_kind::cuda_legacy || m.kind == wire::memory_kind::cuda_pool;
    }

    /// \throws error  errc::stale_handle, device_not_found, no_peer_access, already_mapped, same_process, out_of_range,
    ///                permission (a pool without its descriptor), no_driver
    [[nodiscard]] opened_allocation open_memory(wire::memory const& m, ipc::opening const& how) const {
        std::int32_t const theirs = device_with(m.device), where = how.where ? how.where->id : theirs;
        auto const handle = detail::to_handle(m.handle, "memory's handle");
        auto mapping = [&]() -> detail::any_mapping {
            if (m.kind == wire::memory_kind::cuda_legacy) return ipc_memory{handle, where};
            if (how.file < 0)
                ferry::detail::fail(
                    errc::permission, "ferry::ipc::attach",
                    message{
                        "memory of a pool needs the pool's descriptor, which travels over a socket beside this text"});
            return pools_.open([&] { return imported_memory{imported_pool{how.file, where}, handle}; });
        }();
        void const* const base = detail::of_mapping(mapping, [](auto const& open) { return open.data(); });
        // What the driver does not know the size of is believed of a pool alone.
        detail::require_inside(m, detail::mapped_from(base, m.kind == wire::memory_kind::cuda_pool ? m.allocation : 0));
        return {std::move(mapping), theirs, static_cast<std::size_t>(m.offset), events_};
    }

   private:
    [[nodiscard]] bool is_shared_by_pool(allocation const& a) const noexcept {
        return options_.pools && a.is_of_pool && (a.handle_types & cudaMemHandleTypePosixFileDescriptor) != 0;
    }

    /// An event after all that is queued on a stream now, whatever its device; none when there is nothing to wait for,
    /// or no event is free and the host has waited.
    [[nodiscard]] std::optional<ipc_event> mark_ready(std::int32_t device_id, stream_token on) const {
        if (!on.names_stream()) return std::nullopt;
        detail::require_stream(on, "ferry::ipc::share");
        std::int32_t const where = detail::device_of(on, "ferry::ipc::share");
        auto ready = events_->of(device_id).take();
        if (!ready) {
            cuda::wait(on);
            return std::nullopt;
        }
        try {
            device_guard const current{device_id};
            if (where == device_id) {
                detail::require_no_capture(detail::handle_of(on), "ferry::ipc::share");
                ready->record(detail::handle_of(on));
            } else {  // an event is recorded on its own device alone
                auto const between = detail::make_quiet_stream(device_id);
                cuda::order(on, between);  // mutant: ipc_ready_other_device
                ready->record(between.get());
            }
        } catch (...) {
            events_->of(device_id).put(std::move(*ready));
            throw;
        }
        return ready;
    }

    sharing_options options_;
    std::shared_ptr<detail::ipc_events> events_;
    mutable detail::pool_memories pools_ = detail::pool_memories::of_process();
};

template <class BackEnd>
shareable(BackEnd&, sharing_options const&) -> shareable<BackEnd>;
template <class BackEnd>
    requires back_end<BackEnd>
shareable(BackEnd&) -> shareable<BackEnd>;

}  // namespace ferry::inline v0::cuda
