// ferry: the engine of ipc/shared.hpp.
#pragma once

#include <ferry/ipc/shared.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/tensor/make_managed.hpp>

namespace FERRY_NAMESPACE::ipc {

template <class F>
void shared::for_each_part(F f) const {
    if (state_ == nullptr) return;
    f(*state_);
    for (auto const& other : state_->others) f(*other);
}

FERRY_INLINE wire::descriptor const& shared::descriptor() const& noexcept { return state_->description; }
FERRY_INLINE int shared::file() const noexcept { return state_ != nullptr ? state_->where->memory.file() : -1; }

FERRY_INLINE std::vector<int> shared::files() const {
    std::vector<int> all(state_ != nullptr ? state_->description.memories.size() : 0);
    for_each_part([&](auto& part) {
        for (auto const& m : part.memories) all[m.number] = part.where->memory.file();
    });
    return all;
}

FERRY_INLINE tensor_view shared::view() const& noexcept { return state_->view(); }

FERRY_INLINE managed_tensor shared::tensor() const {
    return make_managed(std::shared_ptr<detail::share_state>{state_}, [](auto& s) { return s->view(); });
}

FERRY_INLINE bool shared::holds_column() const noexcept {
    return state_ != nullptr && std::holds_alternative<wire::node>(state_->description.root);
}

FERRY_INLINE share_copies const& shared::copied() const noexcept { return state_->copied; }

FERRY_INLINE bool shared::close() noexcept {
    if (state_ == nullptr) return true;
    bool is_removed = state_->session->close(state_);
    for (auto const& other : state_->others) is_removed &= other->session->close(other);
    return is_removed;
}

FERRY_INLINE bool shared::is_open() const noexcept { return state_ != nullptr && state_->is_open; }

FERRY_INLINE std::uint64_t shared::readers() const noexcept {
    std::uint64_t most = 0;
    for_each_part([&](auto& part) { most = std::max(most, part.control().readers(part.locks())); });
    return most;
}

FERRY_INLINE bool shared::wait_for_readers(std::chrono::nanoseconds limit, stream_token on,
                                           std::source_location where) {
    if (state_ == nullptr) return true;
    for_each_part([&](auto& part) {
        static_cast<void>(
            ferry::detail::check_stream(on, part.device, {"ferry::ipc::shared::wait_for_readers", where}));
    });
    auto const end = detail::deadline(limit);
    std::chrono::nanoseconds pause = std::chrono::microseconds{10};
    while (readers() != 0 || !order_after_importers(on)) {
        auto const now = std::chrono::steady_clock::now();
        if (now >= end) return false;
        std::this_thread::sleep_for(std::min(pause, std::chrono::nanoseconds{end - now}));
        pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::milliseconds{1});
    }
    return true;
}

FERRY_INLINE bool shared::record_ready(stream_token on, std::source_location where) {
    constexpr auto api = "ferry::ipc::shared::record_ready";
    bool has_events = false, has_changed = false;
    for_each_part([&](auto& part) {
        static_cast<void>(ferry::detail::check_stream(on, part.device, {api, where}));
        has_events |= !part.handles.empty();
    });
    if (!on.names_stream()) return false;
    if (!has_events)
        detail::fail(errc::stream, api, where,
                     "attaches of host memory wait for no stream: pass none, once its work has completed");
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

FERRY_INLINE bool shared::order_after_importers(stream_token on) {
    bool is_ordered = true;
    for_each_part([&](auto& part) {
        auto const its = on.on_device(part.device);
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

}  // namespace FERRY_NAMESPACE::ipc
