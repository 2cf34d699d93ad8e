// ferry: how a share comes about: found, copied, or exported by a handle.
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
                {v.data(), v.dtype(), unique, v.strides(), v.device(),
                 t.flags & flags::subbyte_padded},
                b, on, where);
}

[[nodiscard]] inline std::size_t bytes_of(wire::tensor const& t, std::vector<std::int64_t> const& unique) noexcept {
    return static_cast<std::size_t>(
        tensor_view{static_cast<void*>(nullptr), t.dtype, unique, {}, cpu, t.flags & flags::subbyte_padded}.nbytes());
}

/// A new segment under the name of the share; its control page alone, which always has a name, when `bytes` is 0.
inline void make_segment(share_state& s, segment_name name, std::uint64_t allocation, std::size_t bytes,
                         std::source_location where) {
    auto& m = s.description.memories[0];
    if (bytes != 0) name.kind = s.session->segments();
    m.name = to_string(name);
    auto fresh = segment::create(m.name, bytes, allocation, where);
    try {
        s.where = std::make_shared<region>(std::move(fresh), allocation, access_mode::read_write);
    } catch (...) {
        fresh.unlink(m.name);
        throw;
    }
    s.session->regions().add(s.where);
}

/// Memory of the host where it lies, when it lies in a segment whose name still leads there, or that has its file.
[[nodiscard]] inline bool share_found(share_state& s, segment_name name, tensor_view const& v) {
    auto const range = range_of(v);
    auto found = s.session->regions().find(range);
    if (found == nullptr) return false;
    auto& m = s.description.memories[0];
    auto t = layout_of(v);
    t.byte_offset = range.first;
    if (found->mode == access_mode::read_only || found->memory.is_frozen()) t.flags |= flags::read_only;
    if (!s.session->regions().prepare(*found, has(t.flags, flags::read_only), s.is_frozen)) return false;
    if (found->memory.file() >= 0) name.kind = segment_kind::anonymous;
    m.name = to_string(name);
    if (!s.session->regions().link(*found, m.name)) return false;
    s.where = std::move(found);
    m.kind = wire::memory_kind::host_shared;
    m.id = s.where->id;
    m.allocation = s.where->memory.size();
    m.offset = static_cast<std::uint64_t>(range.begin - s.where->memory.data());
    m.length = range.length;
    s.description.root = std::move(t);
    s.data = ferry::detail::untyped_data(v);
    return true;
}

/// Memory that the host reads, copied into a segment of its own.
template <class BackEnd>
void share_copied(share_state& s, segment_name const& name, tensor_view const& v, BackEnd& b, stream_token on,
                  std::source_location where) {
    std::vector<std::int64_t> unique;
    auto t = compact_layout(v, unique);
    auto const bytes = bytes_of(t, unique);
    auto& m = s.description.memories[0];
    bool const is_off_host = !is_host_accessible(v.device());  // then it is empty
    m.kind = is_off_host ? wire::memory_kind::none : wire::memory_kind::host_shared;
    m.type = is_off_host ? v.device().type : device_type::cpu;
    if (is_off_host) s.device = v.device();
    m.id = name.id;
    m.allocation = m.length = bytes;
    make_segment(s, name, m.id, bytes, where);
    s.data = v.is_empty() ? nullptr : s.where->memory.data();
    s.copied = !v.is_empty();
    copy_compact(s.data, cpu, t, unique, v, b, on, where);
    // mutant: ipc_sealed
    static_cast<void>(s.session->regions().prepare(*s.where, has(t.flags, flags::read_only), s.is_frozen));
    s.description.root = std::move(t);
}

/// Ends all writes to the memory of a share.
inline void freeze(share_state const& s, std::source_location where) {
    auto const& memory = s.where->memory;
    if (memory.is_frozen() || (memory.size() == 0 && s.handle == nullptr)) return;
    if (memory.file() < 0)
        fail(errc::argument, share_api,
             message{"only anonymous segments of the host are frozen: set session_options::segments"}, where);
    // A sealed mapping that freeze has dropped cannot be made again: not if a forked child may have it.
    bool const can_try = s.where->shared_as == region::use::writable ||
                         (s.where->shared_as == region::use::sealed && s.where->forked_at == forks());
    if (can_try && memory.freeze()) return;
    if (can_try && errno != EBUSY)
        fail_system(errno, "fcntl(F_SEAL_WRITE)", s.memory_description().name, share_api, where);
    fail(errc::busy, share_api, message{"the memory is mapped with write access: drop those tensors, or share a copy"},
         where);
}

/// Memory of a device, by the handles of a back end.
template <handle_back_end BackEnd>
void share_exported(share_state& s, segment_name const& name, tensor_view v, copy_policy copy, BackEnd& b,
                    stream_token on, std::source_location where) {
    auto t = layout_of(v);
    s.device = v.device();
    char const* const refusal =
        copy == copy_policy::always ? "a copy was asked for" : b.refusal(range_of(v), v.device());
    if (refusal != nullptr && copy == copy_policy::never)
        fail(errc::not_exportable, share_api, message{refusal} << ": allow a copy, or share memory that has a handle",
             where);
    if (refusal != nullptr) {
        std::vector<std::int64_t> unique;
        t = compact_layout(v, unique);
        auto memory = b.allocate_exportable(v.device(), bytes_of(t, unique), on);
        using owner = decltype(memory);
        copy_compact(memory.data(), v.device(), t, unique, v, b, on, where);
        v = {static_cast<void*>(memory.data()), t.dtype, t.shape, t.strides, v.device(), t.flags};
        s.memory = {new owner{std::move(memory)}, +[](void* p) { delete static_cast<owner*>(p); }};
        s.copied = true;
    }
    auto const range = range_of(v);
    auto exported = b.export_memory(range, v.device(), on);
    s.handle = std::make_unique<exporting_by<decltype(exported)>>(std::move(exported));
    s.description.memories[0] = static_cast<exporting_by<decltype(exported)>&>(*s.handle).memory.description();
    make_segment(s, name, s.memory_description().id, 0, where);
    t.byte_offset = range.first;
    s.description.root = std::move(t);
    s.data = ferry::detail::untyped_data(v);
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
    auto const me = session->me(where);
    session->sweep_once();  // mutant: ipc_sweep
    session->collect({});
    segment_name const name{::geteuid(), shared_memory_device(), me.pid, fresh_id(share_api, where)};
    auto made = std::make_shared<share_state>();
    auto& s = *made;
    s.session = std::move(session);
    s.id = name.id;
    s.process = process_mark::here();
    s.is_frozen = is_frozen;
    s.description.from = me;
    s.description.memories.emplace_back();
    struct undo {
        share_state* made;
        ~undo() {
            if (made != nullptr && made->where != nullptr) made->session->withdraw(*made);
        }
    } unless_done{made.get()};

    bool const is_host = v.device().type == device_type::cpu;
    bool exported = false;
    if constexpr (handle_back_end<BackEnd>) {
        if ((exported = !is_host && !v.is_empty() && b.exports(v.device())))
            share_exported(s, name, v, copy, b, on.on_device(v.device()), where);
    }
    if (exported) {
    } else if (is_host && copy != copy_policy::always && share_found(s, name, v)) {
    } else if (v.is_empty() || is_host_accessible(v.device())) {
        if (copy == copy_policy::never && !v.is_empty()) fail_unshared(v.device(), where);
        share_copied(s, name, v, b, on.on_device(v.device()), where);
    } else {
        fail_no_handles(v.device(), where);
    }
    s.session->add(made);
    if (s.is_frozen) freeze(s, where);
    s.is_open = true;
    unless_done.made = nullptr;
    if (!s.copied) s.owner = std::move(tensor);
    else managed_tensor const spent{std::move(tensor)};
    return made;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
