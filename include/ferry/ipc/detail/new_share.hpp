// ferry: a share that is being made: its segment, memories and handles under one name.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/wire/descriptor.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>  // see region.hpp
#include <source_location>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

inline constexpr char const* share_api = "ferry::ipc::share";

/// Ends all writes to the memory of a share.
inline void freeze(share_state const& s, std::source_location where) {
    auto const& memory = s.where->memory;
    if (memory.is_frozen() || memory.size() == 0) return;
    if (memory.file() < 0)
        fail(errc::argument, share_api, message{"only anonymous segments can be frozen: set session_options::segments"},
             where);
    // A sealed mapping that freeze has dropped cannot be made again: not if a forked child may have it.
    bool const can_try = s.where->shared_as == region::use::writable ||
                         (s.where->shared_as == region::use::sealed && s.where->forked_at == forks());
    if (can_try && memory.freeze()) return;
    if (can_try && errno != EBUSY) fail_system(errno, "fcntl(F_SEAL_WRITE)", s.name, share_api, where);
    fail(errc::busy, share_api,
         message{"the memory is mapped with write access, or pinned: drop those tensors, unpin it, or share a copy"},
         where);
}

/// A share that is being made: its name is withdrawn unless it is finished.
class new_share {
   public:
    new_share(std::shared_ptr<session_state> session, wire::origin const& me, bool is_frozen,
              std::source_location where)
        : name_{::geteuid(), shared_memory_device(), me.pid, fresh_id(share_api, where)},
          made_{std::make_shared<share_state>()} {
        made_->session = std::move(session);
        made_->id = name_.id;
        made_->process = process_mark::here();
        made_->is_frozen = is_frozen;
    }
    new_share(new_share&&) noexcept = default;
    new_share& operator=(new_share&&) = delete;
    ~new_share() {
        if (made_ != nullptr && made_->where != nullptr) made_->session->withdraw(*made_);
    }
    [[nodiscard]] share_state& state() const noexcept { return *made_; }

    /// A new segment under the name of the share; its control page alone when `bytes` is 0.
    void make_segment(std::uint64_t allocation, std::size_t bytes, std::source_location where) {
        auto& s = *made_;
        name_.kind = s.session->segments();
        s.name = to_string(name_);
        s.where = std::make_shared<region>(s.name, bytes, allocation, where);
        s.session->regions().add(s.where);
    }
    /// Memory of the host for copies. Returns its first byte.
    std::byte* allocate(std::size_t bytes, std::source_location where) {
        make_segment(name_.id, bytes, where);
        return add_data();
    }
    /// No memory, only a control page.
    void allocate_none(ferry::device on, std::source_location where) {
        make_segment(name_.id, 0, where);
        made_->device = on;
        made_->add({.type = on.type, .id = name_.id, .name = made_->name}, nullptr);
    }
    /// Memory of the host where it lies, when it lies in a segment whose name still leads there, or that has its file.
    [[nodiscard]] bool find(byte_range const& range, bool is_read_only) {
        auto& s = *made_;
        auto found = s.session->regions().find(range);
        if (found == nullptr) return false;
        is_read_only = is_read_only || found->mode == access_mode::read_only || found->memory.is_frozen();
        if (!s.session->regions().prepare(*found, is_read_only, s.is_frozen)) return false;
        if (found->memory.file() >= 0) name_.kind = segment_kind::anonymous;
        s.name = to_string(name_);
        if (!s.session->regions().link(*found, s.name)) return false;
        s.where = std::move(found);
        add_data();
        return true;
    }
    /// Memory of a device, by a handle for its whole allocation.
    template <handle_back_end BackEnd>
    void add_exported(byte_range const& range, ferry::device on, BackEnd& b, stream_token ready_on,
                      std::source_location where) {
        auto& s = *made_;
        if (s.is_frozen)  // checked before other memory of the column is frozen, which cannot be undone
            fail(errc::argument, share_api,
                 message{"memory of "} << ferry::name(on.type) << " cannot be frozen: share a copy on the host", where);
        auto exported = b.export_memory(range, on, ready_on);
        using holder_type = exporting_by<decltype(exported)>;
        s.handles.push_back(std::make_unique<holder_type>(std::move(exported)));
        wire::memory m = static_cast<holder_type&>(*s.handles.back()).memory.description();
        if (s.where == nullptr) make_segment(m.id, 0, where);
        m.name = s.name;
        s.device = on;
        s.add(std::move(m), const_cast<std::byte*>(range.begin));
    }
    /// Ends the writes of a copy, and seals it if it is shared read-only.
    void end_writes(bool is_read_only) {
        // mutant: ipc_sealed
        static_cast<void>(made_->session->regions().prepare(*made_->where, is_read_only, made_->is_frozen));
    }
    /// Permits attaches.
    [[nodiscard]] std::shared_ptr<share_state> finish(std::source_location where) {
        auto& s = *made_;
        s.session->add(made_);
        if (s.is_frozen) freeze(s, where);
        s.is_open = true;
        return std::move(made_);
    }

   private:
    /// Describes all data of the segment. Returns its first byte, null when it has none.
    std::byte* add_data() {
        auto& s = *made_;
        auto const bytes = s.where->memory.size();
        auto* const begin = bytes == 0 ? nullptr : s.where->memory.data();
        s.add({.kind = wire::memory_kind::host_shared,
               .id = s.where->id,
               .allocation = bytes,
               .length = bytes,
               .name = s.name},
              begin);
        return begin;
    }

    segment_name name_;
    std::shared_ptr<share_state> made_;
};

/// The session's process, which may have forked since the last call; removes what dead processes left.
[[nodiscard]] inline wire::origin begin_sharing(session_state& session, std::source_location where) {
    auto const me = session.me(where);
    session.sweep_once();  // mutant: ipc_sweep
    session.collect({});
    return me;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
