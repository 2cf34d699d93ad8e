// ferry: shared_space, a memory space whose allocations can be shared without a copy.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <memory>  // see region.hpp
#include <source_location>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// A memory space of the host in which every allocation is a segment. Tensors in it are shared without a copy by shares
/// of the same session. An allocation needs several system calls and at least five pages: intended for tensors, not
/// for small objects. Keeps the state of the session. Thread-safe.
class shared_space {
   public:
    /// \param s  session, whose state the space keeps
    explicit shared_space(session& s) noexcept : state_{detail::session_access::state(&s)} {}

    /// Allocates zeroed memory.
    /// \param bytes      size
    /// \param alignment  at most 4096
    /// \param where      source location for errors
    /// \throws error  errc::out_of_memory: /dev/shm is full; errc::alignment, permission, unsupported_platform
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment,
                                 std::source_location where = std::source_location::current()) {
        constexpr auto api = "ferry::ipc::shared_space";
        if (alignment > 4096)
            detail::fail(errc::alignment, api,
                         message{"the alignment is "} << std::uint64_t{alignment}
                                                      << ", expected at most 4096: request a smaller one",
                         where);
        auto const me = state_->me(where);
        state_->sweep_once();
        auto const id = detail::fresh_id(api, where);
        auto const name =
            detail::to_string({::geteuid(), detail::shared_memory_device(), me.pid, id, state_->segments()});
        auto const made = state_->with_room(
            [&] { return std::make_shared<detail::region>(name, bytes != 0 ? bytes : 1, id, where); });
        try {
            state_->keep(made, name);
        } catch (...) {
            made->memory.unlink(name);
            throw;
        }
        return made->memory.data();
    }
    /// Frees memory of this space, and removes its name if this process allocated it. Importers keep their mappings.
    /// \param p  from `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) noexcept { state_->drop(p); }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return cpu; }

   private:
    std::shared_ptr<detail::session_state> state_;
};

static_assert(memory_space<shared_space>);

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
