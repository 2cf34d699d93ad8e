// ferry: how a share comes about: found, copied, or exported by a handle.
// length: all ways to share memory; new_share is their common part.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/ipc/detail/session_state.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/ipc/shared.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // see region.hpp
#include <source_location>
#include <string>  // see region.hpp
#include <utility>
#include <vector>  // of a descriptor

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

struct share_access {
    [[nodiscard]] static shared wrap(std::shared_ptr<share_state> state) noexcept { return shared{std::move(state)}; }
};

inline constexpr char const* share_api = "ferry::ipc::share";

/// Shape, strides, type and flags as they travel; strides always.
[[nodiscard]] inline wire::tensor layout_of(tensor_view const& v) {
    wire::tensor t;
    t.dtype = v.dtype();
    t.flags = known(v.flags()) & ~flags::is_copied;  // shared memory has no sole owner (R12)
    for (int i = 0; i < v.rank(); ++i) {
        t.shape.push_back(v.extent(i));
        t.strides.push_back(v.stride(i));
    }
    return t;
}

/// A copy's layout: compact, but what a broadcast repeats stays one (R29). `unique` gets the extents that are copied.
[[nodiscard]] inline wire::tensor compact_layout(tensor_view const& v, std::vector<std::int64_t>& unique) {
    wire::tensor t = layout_of(v);
    unique = t.shape;
    std::int64_t step = 1;
    for (auto i = unique.size(); i-- > 0;) {
        bool const repeats = t.shape[i] > 1 && t.strides[i] == 0;
        if (repeats) unique[i] = 1;
        t.strides[i] = repeats ? 0 : step;
        step = ferry::detail::compact_step(step, unique[i]);
    }
    return t;
}

/// Copies `v` into fresh memory at `to` that has room for it; `t` is its compact_layout. Finished on return.
template <class BackEnd>
void copy_compact(void* to, ferry::device device, wire::tensor const& t, std::vector<std::int64_t> const& unique,
                  tensor_view const& v, BackEnd& b, stream_token on, std::source_location where) {
    if (v.is_empty()) return;
    ferry::copy({to, t.dtype, unique, {}, device, t.flags & flags::subbyte_padded},
                {v.data(), v.dtype(), unique, v.strides(), v.device(), t.flags & flags::subbyte_padded}, b, on, where);
}

[[nodiscard]] inline std::size_t bytes_of(wire::tensor const& t, std::vector<std::int64_t> const& unique) noexcept {
    return static_cast<std::size_t>(
        tensor_view{static_cast<void*>(nullptr), t.dtype, unique, {}, cpu, t.flags & flags::subbyte_padded}.nbytes());
}

/// Ends all writes to the memory of a share.
inline void freeze(share_state const& s, std::source_location where) {
    auto const& memory = s.where->memory;
    if (memory.is_frozen() || (memory.size() == 0 && s.handles.empty())) return;
    if (memory.file() < 0)
        fail(errc::argument, share_api,
             message{"only anonymous segments of the host are frozen: set session_options::segments"}, where);
    // A sealed mapping that freeze has dropped cannot be made again: not if a forked child may have it.
    bool const can_try = s.where->shared_as == region::use::writable ||
                         (s.where->shared_as == region::use::sealed && s.where->forked_at == forks());
    if (can_try && memory.freeze()) return;
    if (can_try && errno != EBUSY) fail_system(errno, "fcntl(F_SEAL_WRITE)", s.name, share_api, where);
    fail(errc::busy, share_api, message{"the memory is mapped with write access: drop those tensors, or share a copy"},
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

    /// A new segment under the name of the share; its control page alone, which always has a name, when `bytes` is 0.
    void make_segment(std::uint64_t allocation, std::size_t bytes, std::source_location where) {
        auto& s = *made_;
        if (bytes != 0) name_.kind = s.session->segments();
        s.name = to_string(name_);
        auto fresh = segment::create(s.name, bytes, allocation, where);
        try {
            s.where = std::make_shared<region>(std::move(fresh), allocation, access_mode::read_write);
        } catch (...) {
            fresh.unlink(s.name);
            throw;
        }
        s.session->regions().add(s.where);
    }
    /// Memory of the host for copies. Returns its first byte.
    std::byte* allocate(std::size_t bytes, std::source_location where) {
        make_segment(name_.id, bytes, where);
        auto& s = *made_;
        auto* const begin = s.where->memory.data();
        s.add({.kind = wire::memory_kind::host_shared,
               .id = name_.id,
               .allocation = bytes,
               .length = bytes,
               .name = s.name},
              bytes == 0 ? nullptr : begin);
        return begin;
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
        auto const bytes = s.where->memory.size();
        s.add({.kind = wire::memory_kind::host_shared,
               .id = s.where->id,
               .allocation = bytes,
               .length = bytes,
               .name = s.name},
              s.where->memory.data());
        return true;
    }
    /// Memory of a device, by a handle for its whole allocation.
    template <handle_back_end BackEnd>
    void add_exported(byte_range const& range, ferry::device on, BackEnd& b, stream_token ready_on,
                      std::source_location where) {
        auto& s = *made_;
        auto exported = b.export_memory(range, on, ready_on);
        using holder_type = exporting_by<decltype(exported)>;
        s.handles.push_back(std::make_unique<holder_type>(std::move(exported)));
        wire::memory m = static_cast<holder_type&>(*s.handles.back()).memory.description();
        if (s.where == nullptr) make_segment(m.id, 0, where);
        m.name = s.name;
        s.device = on;
        s.add(std::move(m), const_cast<std::byte*>(range.begin));
    }
    /// Seals a copy that is shared read-only.
    void end_writes() {
        // mutant: ipc_sealed
        static_cast<void>(made_->session->regions().prepare(*made_->where, true, made_->is_frozen));
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

/// Memory of the host where it lies.
[[nodiscard]] inline bool share_found(new_share& fresh, tensor_view const& v) {
    auto const range = range_of(v);
    if (!fresh.find(range, has(v.flags(), flags::read_only))) return false;
    auto& s = fresh.state();
    auto& m = s.memories[0];
    m.offset = static_cast<std::uint64_t>(range.begin - s.where->memory.data());
    m.length = range.length;
    s.begins[0] += m.offset;
    auto t = layout_of(v);
    t.byte_offset = range.first;
    if (s.where->mode == access_mode::read_only || s.where->memory.is_frozen()) t.flags |= flags::read_only;
    s.description.root = std::move(t);
    return true;
}

/// Memory that the host reads, copied into a segment of its own.
template <class BackEnd>
void share_copied(new_share& fresh, tensor_view const& v, BackEnd& b, stream_token on, std::source_location where) {
    std::vector<std::int64_t> unique;
    auto t = compact_layout(v, unique);
    auto const bytes = bytes_of(t, unique);
    auto& s = fresh.state();
    if (!is_host_accessible(v.device())) fresh.allocate_none(v.device(), where);  // it is empty
    else copy_compact(fresh.allocate(bytes, where), cpu, t, unique, v, b, on, where);
    if (has(t.flags, flags::read_only)) fresh.end_writes();
    else static_cast<void>(s.session->regions().prepare(*s.where, false, s.is_frozen));
    s.copied.bytes = v.is_empty() ? 0 : bytes;
    s.description.root = std::move(t);
}

/// Memory of a device, by the handles of a back end.
template <handle_back_end BackEnd>
void share_exported(new_share& fresh, tensor_view v, copy_policy copy, BackEnd& b, stream_token on,
                    std::source_location where) {
    auto& s = fresh.state();
    auto t = layout_of(v);
    char const* const refusal =
        copy == copy_policy::always ? "a copy was asked for" : b.refusal(range_of(v), v.device());
    if (refusal != nullptr && copy == copy_policy::never)
        fail(errc::not_exportable, share_api, message{refusal} << ": allow a copy, or share memory that has a handle",
             where);
    if (refusal != nullptr) {
        std::vector<std::int64_t> unique;
        t = compact_layout(v, unique);
        auto const bytes = bytes_of(t, unique);
        auto memory = b.allocate_exportable(v.device(), bytes, on);
        copy_compact(memory.data(), v.device(), t, unique, v, b, on, where);
        v = {static_cast<void*>(memory.data()), t.dtype, t.shape, t.strides, v.device(), t.flags};
        s.copy = std::make_shared<decltype(memory)>(std::move(memory));
        s.copied.bytes = bytes;
    }
    auto const range = range_of(v);
    fresh.add_exported(range, v.device(), b, on, where);
    t.byte_offset = range.first;
    s.description.root = std::move(t);
}

[[noreturn]] FERRY_COLD inline void fail_unshared(ferry::device d, std::source_location where) {
    message text{
        "the memory is not shared, and a copy is forbidden: allocate it from ferry::ipc::shared_space of the session"};
    if (d.type != device_type::cpu) text << " (memory of " << name(d.type) << " has no handle for other processes)";
    fail(errc::copy_needed, share_api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_no_handles(device d, std::source_location where) {
    message text{"the passed back end makes no handles for memory of "};
    text << ferry::name(d.type);
    if (uses_cuda_streams(d.type)) text << ": include <ferry/cuda/ipc.hpp> and pass ferry::cuda::shareable";
    else text << ": pass one that does, or share a copy on the host";
    fail(errc::no_backend, share_api, text, where);
}

template <class BackEnd>
[[nodiscard]] std::shared_ptr<share_state> make_share(managed_tensor&& tensor, std::shared_ptr<session_state> session,
                                                      copy_policy copy, bool is_frozen, stream_token on, BackEnd& b,
                                                      std::source_location where) {
    tensor_view const v = is_frozen ? tensor.view().as_read_only() : tensor.view();
    auto const me = begin_sharing(*session, where);
    new_share fresh{std::move(session), me, is_frozen, where};
    auto& s = fresh.state();
    bool const is_host = v.device().type == device_type::cpu;
    bool exported = false;
    if constexpr (handle_back_end<BackEnd>) {
        if ((exported = !is_host && !v.is_empty() && b.exports(v.device())))
            share_exported(fresh, v, copy, b, on.on_device(v.device()), where);
    }
    if (exported) {
    } else if (is_host && copy != copy_policy::always && share_found(fresh, v)) {
    } else if (v.is_empty() || is_host_accessible(v.device())) {
        if (copy == copy_policy::never && !v.is_empty()) fail_unshared(v.device(), where);
        share_copied(fresh, v, b, on.on_device(v.device()), where);
    } else {
        fail_no_handles(v.device(), where);
    }
    s.description.from = me;
    s.description.memories = s.memories;
    auto made = fresh.finish(where);
    if (!made->copied) made->owner = std::move(tensor);
    else managed_tensor const spent{std::move(tensor)};
    return made;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
