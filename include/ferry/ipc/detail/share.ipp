// ferry: the engine of ipc/share.hpp.
#pragma once

#include <ferry/ipc/share.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/ipc/detail/tensor_part.hpp>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

FERRY_INLINE view_share share_view(tensor_view v, bool in_place, share_options const& how, handle_ref b,
                                   std::source_location where) {
    if (how.freeze) v = v.as_read_only();
    static_cast<void>(ferry::detail::check_stream(how.ready_on, v.device(), {share_api, where}));
    wire::tensor t;
    tensor_part part{v, t};
    auto const owner = std::make_shared<managed_tensor>();
    new_share share{how, v.is_read_only(), b, where};
    wire::slice exported;
    if (!in_place || !part.locate(share, [] { return message{"the tensor"}; }, exported)) {
        auto const on = how.ready_on.on_device(v.device());
        exported = part.is_nowhere() ? share.add_none(v.device())
                                     : share.add_copy(part.lay_out(), part.place(), on,
                                                      [&](void* to) { part.copy(to, b, on, where); });
        share.copied.bytes = exported.length;
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
