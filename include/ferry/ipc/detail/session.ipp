// ferry: the engine of ipc/session.hpp.
#pragma once

#include <ferry/ipc/session.hpp>

#include <ferry/ipc/detail/session_state.hpp>

namespace FERRY_NAMESPACE::ipc {

FERRY_INLINE session::session(session_options const& options)
    : state_{std::make_shared<detail::session_state>(options)} {}

FERRY_INLINE void session::trim() noexcept { state_->imports().trim(); }
FERRY_INLINE std::size_t session::collect(std::chrono::nanoseconds limit) noexcept { return state_->collect(limit); }
FERRY_INLINE void session::close_all() noexcept { state_->close_all(); }

FERRY_INLINE bool session::sealed(tensor_view const& v) const {
    auto const found = state_->regions().find(range_of(v));
    return found != nullptr && found->memory.is_frozen();
}

FERRY_INLINE session_counts session::counts() const noexcept { return state_->counts(); }

namespace detail {

FERRY_INLINE std::shared_ptr<session_state> session_access::state(session* s) {
    return s != nullptr ? s->state_ : std::make_shared<session_state>(session_options{.unused_mappings = 0});
}

}  // namespace detail
}  // namespace FERRY_NAMESPACE::ipc
