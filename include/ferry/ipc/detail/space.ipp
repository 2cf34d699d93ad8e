// ferry: the engine of ipc/space.hpp.
#pragma once

#include <ferry/ipc/space.hpp>

#include <ferry/ipc/detail/session_state.hpp>

namespace FERRY_NAMESPACE::ipc {

FERRY_INLINE shared_space::shared_space(session& s) noexcept : state_{detail::session_access::state(&s)} {}

FERRY_INLINE void* shared_space::allocate(std::size_t bytes, std::size_t alignment, std::source_location where) {
    constexpr auto api = "ferry::ipc::shared_space";
    if (alignment > 4096)
        detail::fail(errc::alignment, api, where, "the alignment is ", std::uint64_t{alignment},
                     ", expected at most 4096: request a smaller one");
    auto const me = state_->me(where);
    state_->sweep_once();
    auto const id = detail::fresh_id(api, where);
    auto const name = detail::to_string({::geteuid(), detail::shared_memory_device(), me.pid, id, state_->segments()});
    auto const made =
        state_->with_room([&] { return std::make_shared<detail::region>(name, bytes != 0 ? bytes : 1, id, where); });
    try {
        state_->keep(made, name);
    } catch (...) {
        made->memory.unlink(name);
        throw;
    }
    return made->memory.data();
}

FERRY_INLINE void shared_space::deallocate(void* p, std::size_t, std::size_t) noexcept { state_->drop(p); }

FERRY_INLINE bool shared_space::contains(tensor_view const& v) const {
    return is_host_accessible(v.device()) && state_->regions().find(range_of(v)) != nullptr;
}

}  // namespace FERRY_NAMESPACE::ipc
