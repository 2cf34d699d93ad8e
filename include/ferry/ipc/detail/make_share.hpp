// ferry: how a share comes about: found, copied, or exported by a handle.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/ipc/detail/new_share.hpp>
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
    fresh.end_writes(has(t.flags, flags::read_only));
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
        "the memory is not shared, or sealed by a read-only share, and a copy is forbidden: allocate it from "
        "ferry::ipc::shared_space of the session"};
    if (d.type != device_type::cpu) text << " (memory of " << name(d.type) << " has no handle for other processes)";
    fail(errc::copy_needed, share_api, text, where);
}

/// `what`: the buffer of a column, if any.
[[noreturn]] FERRY_COLD inline void fail_no_handles(device d, std::source_location where, message text = {}) {
    if (*text.c_str() != '\0') text << ": ";
    text << "the passed back end makes no handles for memory of " << ferry::name(d.type);
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
