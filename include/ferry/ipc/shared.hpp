// ferry: shared, the exporter's handle of a share.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/fwd.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/wire/descriptor.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>  // tensors of the exporter keep the memory as well
#include <source_location>
#include <thread>
#include <utility>
#include <variant>
#include <vector>  // a column may have several files

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

namespace detail {
struct share_access;
}

/// A share. Closing or destroying it ends attaches in every process; importers keep their mappings. Move-only.
///
/// Different objects may be used from different threads. In a forked child, closing it has no effect: the share belongs
/// to the parent.
class shared {
   public:
    /// Constructs an empty object, as after a move.
    shared() = default;
    shared(shared&& other) noexcept = default;
    shared& operator=(shared&& other) noexcept {
        shared taken{std::move(other)};  // closes the previous share of this object
        std::swap(state_, taken.state_);
        return *this;
    }
    ~shared() { close(); }

    /// Returns whether it has a share.
    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

    /// Returns the descriptor for other processes, which ferry::wire converts to bytes or JSON. Memory of CUDA pools
    /// and anonymous segments also needs a file descriptor, sent over a Unix socket. Valid as long as this object; must
    /// not be called on an empty one.
    [[nodiscard]] wire::descriptor const& descriptor() const& noexcept { return state_->description; }
    // clang-format off
    wire::descriptor const& descriptor() const&& FERRY_DELETED("the descriptor is destroyed with the share: keep the share in a variable");
    // clang-format on

    /// Returns the file descriptor of an anonymous segment (`session_options::segments`), which importers pass as
    /// `attach_options::files`. Borrowed: closed with the share and its tensors. -1 for a named segment. For a
    /// column, that of its first memory; see `files`.
    [[nodiscard]] int file() const noexcept { return state_ != nullptr ? state_->where->memory.file() : -1; }
    /// Returns the file descriptor of the segment of each memory in the descriptor; -1 for named segments.
    /// \throws std::bad_alloc
    [[nodiscard]] std::vector<int> files() const {
        std::vector<int> all(state_ != nullptr ? state_->description.memories.size() : 0);
        for_each_part([&](auto& part) {
            for (auto const& m : part.memories) all[m.number] = part.where->memory.file();
        });
        return all;
    }

    /// Returns a view of the shared memory in this process; must not be called on an empty object.
    [[nodiscard]] tensor_view view() const& noexcept { return state_->view(); }
    tensor_view view() const&& FERRY_DELETED("the view would outlive the share: keep the share in a variable");
    /// Returns a tensor that keeps the shared memory, even after `close`.
    /// \throws std::bad_alloc
    [[nodiscard]] managed_tensor tensor() const {
        return make_managed(std::shared_ptr<detail::share_state>{state_}, [](auto& s) { return s->view(); });
    }

    /// Returns whether a column is shared. `view` and `tensor` are the bytes of its first memory then.
    [[nodiscard]] bool holds_column() const noexcept {
        return state_ != nullptr && std::holds_alternative<wire::node>(state_->description.root);
    }
    /// Returns the shared column, which keeps the memory, even after `close`. Defined in ferry/ipc/share_column.hpp.
    /// \param where  source location for errors
    /// \throws error  errc::argument: no column is shared
    /// \throws std::bad_alloc
    [[nodiscard]] ferry::column column(std::source_location where = std::source_location::current()) const;

    /// Returns what `share` copied, as memory that other processes cannot open is; nothing for the rest. Must not be
    /// called on an empty object.
    [[nodiscard]] share_copies const& copied() const noexcept { return state_->copied; }

    /// Ends attaches in every process. Never waits: importers keep their mappings. No effect on a closed share.
    /// \return  false when the name stays in /dev/shm, because this process may no longer remove it (it runs as another
    ///          user than when it shared); the next exporter of that user removes it
    bool close() noexcept {
        if (state_ == nullptr) return true;
        bool is_removed = state_->session->close(state_);
        for (auto const& other : state_->others) is_removed &= other->session->close(other);
        return is_removed;
    }
    /// Returns whether the share can be attached.
    [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr && state_->is_open; }

    /// Returns the number of tensors of this share that other processes have; those of ended processes do not count.
    ///
    /// A session has one mapping for all its attaches. The tensors of more than 224 mappings are counted as one for
    /// each further mapping, and as at least one beyond 448. A child that is forked while a process has a tensor in
    /// host memory counts until it ends; one that is forked with a mapping keeps the tensors of a killed parent
    /// counted.
    [[nodiscard]] std::uint64_t readers() const noexcept {
        std::uint64_t most = 0;
        for_each_part([&](auto& part) { most = std::max(most, part.control().readers(part.locks())); });
        return most;
    }

    /// Waits until no other process has a tensor of this share, for an exporter that writes to the memory again.
    ///
    /// Later attaches are possible: announce the new data after writing it.
    /// \param limit  longest wait
    /// \param on     stream that writes: it waits for the work that importers queued before they dropped their
    ///               tensors, and for that of `record_ready`; without a stream the host waits
    /// \param where  source location for errors
    /// \return       false when a process still has a tensor
    /// \throws error  errc::stream: a null stream, or one of another device; errors of the back end
    [[nodiscard]] bool wait_for_readers(std::chrono::nanoseconds limit, stream_token on = {},
                                        std::source_location where = std::source_location::current()) {
        if (state_ == nullptr) return true;
        for_each_part([&](auto& part) {
            static_cast<void>(
                ferry::detail::check_stream(on, part.device, {"ferry::ipc::shared::wait_for_readers", where}));
        });
        auto const end = detail::deadline(limit);
        std::chrono::nanoseconds pause = std::chrono::microseconds{10};
        while (readers() != 0 || !order_after_importers(on)) {  // mutant: ipc_done_waited, ipc_readers_waited
            auto const now = std::chrono::steady_clock::now();
            if (now >= end) return false;
            std::this_thread::sleep_for(std::min(pause, std::chrono::nanoseconds{end - now}));
            pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::milliseconds{1});
        }
        return true;
    }

    /// Makes later attaches wait for the work queued on a stream that writes to the memory again, instead of the work
    /// recorded before. Only for device memory. Does not wait, unless the back end has no free event.
    ///
    /// \param on     stream that writes; one that is none has no effect
    /// \param where  source location for errors
    /// \return       whether `descriptor` has changed, so that importers need the new one: at most the first time
    /// \throws error  errc::stream: a null stream, one of another device, or memory of the host; errors of the back end
    bool record_ready(stream_token on, std::source_location where = std::source_location::current()) {
        constexpr auto api = "ferry::ipc::shared::record_ready";
        bool has_events = false, has_changed = false;
        for_each_part([&](auto& part) {
            static_cast<void>(ferry::detail::check_stream(on, part.device, {api, where}));
            has_events |= !part.handles.empty();
        });
        if (!on.names_stream()) return false;
        if (!has_events)
            detail::fail(errc::stream, api,
                         message{"attaches of host memory wait for no stream: pass none, once its work has completed"},
                         where);
        for_each_part([&](auto& part) {
            if (part.handles.empty()) return;
            auto& first = part.memories[0];
            part.handles[0]->record_ready(on.on_device(part.device));
            first.description.ready = part.handles[0]->description().ready;
            auto& ready = state_->description.memories[first.number].ready;
            has_changed |= ready != first.description.ready;
            ready = first.description.ready;
        });
        return has_changed;
    }

   private:
    friend struct detail::share_access;
    explicit shared(std::shared_ptr<detail::share_state> state) noexcept : state_{std::move(state)} {}

    template <class F>
    void for_each_part(F f) const {
        if (state_ == nullptr) return;
        f(*state_);
        for (auto const& other : state_->others) f(*other);
    }

    /// False when an event is being written, or cannot be opened while its process is running.
    [[nodiscard]] bool order_after_importers(stream_token on) {
        bool is_ordered = true;
        for_each_part([&](auto& part) {
            auto const its = on.on_device(part.device);  // mutant: ipc_reuse_device
            if (part.handles.empty()) return;
            part.handles[0]->wait_ready(its);
            int const count = detail::control_page::max_importers;
            for (int i = 0; i < count && is_ordered; ++i) {
                event_handle done;
                auto const found = part.control().announced(i, done, part.locks());
                // The event of an importer marks its work on all memories of the control page.
                is_ordered = found == detail::control_page::mark::none ||
                             (found == detail::control_page::mark::event && part.handles[0]->order_after(done, its));
            }
        });
        return is_ordered;
    }

    std::shared_ptr<detail::share_state> state_;
};

namespace detail {

struct share_access {
    [[nodiscard]] static shared wrap(std::shared_ptr<share_state> state) noexcept { return shared{std::move(state)}; }
};

}  // namespace detail
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
