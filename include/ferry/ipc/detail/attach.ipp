// ferry: the engine of ipc/attach.hpp.
#pragma once

#include <ferry/ipc/attach.hpp>

#include <ferry/ipc/detail/open_group.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/wire/check.hpp>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

FERRY_INLINE managed_tensor attach_tensor(wire::descriptor const& from, attach_options const& how, handle_ref b,
                                          known_memory* known, std::source_location where) {
    auto const* t = std::get_if<wire::tensor>(&from.root);
    auto const made = [&](attachment&& held, memory_range const& found) {
        return make_managed(std::move(held), view_of(*t, found.begin, found.device),
                            found.is_read_only ? flags::read_only : flags::none, version::current, where);
    };
    if (known != nullptr && t != nullptr)
        if (auto again = known->attach(0, how, where)) return made(std::move(again), known->ranges[0]);
    wire::check(from, where);
    if (t == nullptr)
        fail(errc::argument, attach_api, where,
             "the descriptor is not that of a tensor: call ferry::ipc::attach_column or attach_list");
    if (from.memories.size() != 1 || t->memory != 0)
        fail(errc::bad_descriptor, attach_api, where, "the descriptor of a tensor must have one memory, not ",
             from.memories.size(), ": get a new descriptor from the exporter");
    std::uint32_t const only = 0;
    memory_range found;
    attach_call call{from, how, has(t->flags, flags::read_only), where};
    auto held = open_group(call, {&only, 1}, b, {&found, 1});
    if (known != nullptr) known->set(call, {&held, 1}, {&found, 1});
    return made(std::move(held), found);
}

}  // namespace detail

FERRY_INLINE managed_tensor attach(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                   std::source_location where) {
    return detail::attach_tensor(from, options, b, nullptr, where);
}

}  // namespace FERRY_NAMESPACE::ipc
