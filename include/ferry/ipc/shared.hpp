// ferry: a tensor that other processes can attach, as its exporter holds it.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/fwd.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/wire/descriptor.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>  // the exporter's own tensors keep the memory, too
#include <source_location>
#include <utility>
#include <variant>

namespace ferry::inline v0::ipc {

namespace detail {
struct share_access;
}

/// A share: closing it, or dropping it, ends new attaches in every process; importers keep what they have. Move-only.
///
/// Different objects may be used from different threads. In the child of a fork it is the parent's: closing it there
/// does nothing to the share.
class shared {
   public:
    /// Holds nothing, as after a move.
    shared() = default;
    shared(shared&& other) noexcept = default;
    shared& operator=(shared&& other) noexcept {
        shared taken{std::move(other)};  // then a swap: what was held closes
        std::swap(state_, taken.state_);
        return *this;
    }
    ~shared() { close(); }

    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

    /// What another process needs: bytes or JSON by ferry::wire. Plain text carries every kind but cuda_pool, whose
    /// pool must come over a socket, and anonymous segments, whose `file` must. Valid as long as this object; not for
    /// an empty one.
    [[nodiscard]] wire::descriptor const& descriptor() const& noexcept { return state_->description; }
    // clang-format off
    wire::descriptor const& descriptor() const&& FERRY_DELETED("the descriptor dies with the share: keep the share in a variable");
    // clang-format on

    /// Of memory in an anonymous segment (`session_options::segments`): the file descriptor that travels beside the
    /// descriptor, over a Unix socket, and that the importer passes as `attach_options::files`. Borrowed: closed with
    /// the memory. −1 when none is needed.
    [[nodiscard]] int file() const noexcept { return state_ != nullptr ? state_->where->memory.file() : -1; }

    /// The shared memory itself, as the exporter sees it; not for an empty one.
    [[nodiscard]] tensor_view view() const& noexcept { return state_->view(); }
    tensor_view view() const&& FERRY_DELETED("the view would outlive the share: keep the share in a variable");
    /// The same as a tensor that keeps the memory, closed or not.
    /// \throws std::bad_alloc  when there is no memory
    [[nodiscard]] managed_tensor tensor() const {
        return make_managed(std::shared_ptr<detail::share_state>{state_}, [](auto& s) { return s->view(); });
    }

    /// Whether a column is shared, and what it is there, as a column that keeps the memory, closed or not; `view` and
    /// `tensor` are its bytes then. Include ferry/ipc/share_column.hpp. \throws error  errc::argument;  std::bad_alloc
    [[nodiscard]] bool holds_column() const noexcept {
        return state_ != nullptr && std::holds_alternative<wire::node>(state_->description.root);
    }
    [[nodiscard]] ferry::column column(std::source_location where = std::source_location::current()) const;

    /// Whether the memory is a copy of the tensor at the moment of the share, instead of the tensor's own.
    [[nodiscard]] bool copied() const noexcept { return state_ != nullptr && state_->copied; }

    /// Ends new attaches at once, in every process. Never waits, whatever importers do: what they read stays. Twice is
    /// fine.
    void close() noexcept {
        if (state_ != nullptr) state_->session->close(state_);
    }
    /// Whether it can be attached.
    [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr && state_->is_open; }

    /// The tensors that other processes hold of it now; the dead hold none. 1 at least while more mappings of it are
    /// there than have a place of their own (160); whoever is killed without one counts for good. A session has one
    /// mapping for all its attaches.
    [[nodiscard]] std::uint64_t readers() const noexcept { return state_ != nullptr ? state_->control().readers() : 0; }

    /// For those who write again into what they share: waits until no other process holds a tensor of it, at most for
    /// `limit`, then makes `on` wait for what importers queued before they dropped theirs; without a stream the host
    /// waits. False when somebody holds one still. Attaches that come later are not kept out: announce the new data
    /// after writing.
    [[nodiscard]] bool wait_for_readers(std::chrono::nanoseconds limit, stream_token on = {}) {
        if (state_ == nullptr) return true;
        auto const end = detail::deadline(limit);
        std::chrono::nanoseconds pause = std::chrono::microseconds{10};
        while (readers() != 0 || !order_after_importers(on)) {  // mutant: ipc_done_waited, ipc_readers_waited
            auto const now = std::chrono::steady_clock::now();
            if (now >= end) return false;
            detail::sleep_for(std::min(pause, std::chrono::nanoseconds{end - now}));
            pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::milliseconds{1});
        }
        return true;
    }

   private:
    friend struct detail::share_access;
    explicit shared(std::shared_ptr<detail::share_state> state) noexcept : state_{std::move(state)} {}

    /// False when an event is not clear, or cannot be opened while its process lives.
    [[nodiscard]] bool order_after_importers(stream_token on) {
        if (state_->handle == nullptr) return true;
        on = on.on_device(state_->device);  // mutant: ipc_reuse_device
        for (int i = 0; i < state_->control().places(); ++i) {
            event_handle done;
            auto const found = state_->control().announced(i, done);
            if (found == control_page::mark::unclear) return false;
            if (found == control_page::mark::event && !state_->handle->order_after(done, on)) return false;
        }
        return true;
    }

    std::shared_ptr<detail::share_state> state_;
};

}  // namespace ferry::inline v0::ipc
