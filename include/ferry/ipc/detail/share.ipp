// ferry: the engine of ipc/share.hpp.
#pragma once

#include <ferry/ipc/share.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/ipc/detail/new_share.hpp>
#include <ferry/space/copy.hpp>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

/// Shape, strides, type and flags of a tensor for other processes.
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

FERRY_INLINE view_share share_view(tensor_view v, bool in_place, share_options const& how, handle_ref b,
                                   std::source_location where) {
    if (how.freeze) v = v.as_read_only();
    static_cast<void>(ferry::detail::check_stream(how.ready_on, v.device(), {share_api, where}));
    auto const range = range_of(v);
    auto t = layout_of(v);
    auto const owner = std::make_shared<managed_tensor>();
    new_share share{how, v.is_read_only(), b, where};
    wire::slice exported;
    if (in_place && !v.is_empty() &&
        share.locate(
            range.begin, static_cast<std::int64_t>(range.length), v.device(), [] { return message{"the tensor"}; },
            exported)) {
        t.byte_offset = range.first;
        if (share.is_read_only()) t.flags |= flags::read_only;
    } else {
        // A copy is compact, except that dimensions of stride 0 are not expanded (R29).
        auto const on = how.ready_on.on_device(v.device());
        auto const place = is_host_accessible(v.device()) ? cpu : v.device();
        auto const padded = t.flags & flags::subbyte_padded;
        auto unique = t.shape;
        std::int64_t step = 1;
        for (auto i = unique.size(); i-- > 0;) {
            bool const repeats = t.shape[i] > 1 && t.strides[i] == 0;
            if (repeats) unique[i] = 1;
            t.strides[i] = repeats ? 0 : step;
            step = ferry::detail::compact_step(step, unique[i]);
        }
        auto const compact = [&](void* at) { return tensor_view{at, t.dtype, unique, {}, place, padded}; };
        exported.length = static_cast<std::uint64_t>(compact(nullptr).nbytes());
        if (v.is_empty() && place.type != device_type::cpu) share.add_none(place);
        else
            exported = share.add_copy(exported.length, place, on, [&](void* to) {
                if (v.is_empty()) return;
                ferry::copy(compact(to), {v.data(), t.dtype, unique, v.strides(), v.device(), padded}, b, on, where);
            });
        share.copied.bytes = v.is_empty() ? 0 : exported.length;
    }
    share.narrow(exported);
    return {share_access::wrap(share.finish(std::move(t), owner)), owner};
}

}  // namespace detail

FERRY_INLINE shared share(managed_tensor&& tensor, share_options const& options, handle_ref b,
                          std::source_location where) {
    if (!tensor)
        detail::fail(errc::consumed, detail::share_api, where,
                     "the managed_tensor is empty, because it was moved from or released: pass one that has data");
    auto share = detail::share_view(tensor.view(), true, options, b, where);
    *share.owner = std::move(tensor);
    return std::move(share.made);
}

}  // namespace FERRY_NAMESPACE::ipc
