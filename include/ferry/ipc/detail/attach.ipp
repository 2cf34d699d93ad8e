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
    memory_range found;
    auto held = [&]() -> attachment {
        if (known != nullptr)
            if (auto again = known->attach(0, how, where)) {
                found = known->ranges[0];
                return again;
            }
        wire::check(from, where);
        if (t == nullptr)
            fail(errc::argument, attach_api,
                 message{"the descriptor is a column's, not a tensor's: call ferry::ipc::attach_column"}, where);
        if (from.memories.size() != 1 || t->memory != 0)
            fail(errc::bad_descriptor, attach_api,
                 message{"the descriptor of a tensor must have one memory, not "}
                     << std::uint64_t{from.memories.size()} << ": get a new descriptor from the exporter",
                 where);
        std::uint32_t const only = 0;
        attach_call call{from, how, has(t->flags, flags::read_only), where};
        auto opened = open_group(call, {&only, 1}, b, {&found, 1});
        if (known != nullptr) known->set(call, {&opened, 1}, {&found, 1});
        return opened;
    }();
    return make_managed(std::move(held), view_of(*t, found.begin, found.device),
                        found.is_read_only ? flags::read_only : flags::none, version::current, where);
}

}  // namespace detail

FERRY_INLINE managed_tensor attach(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                   std::source_location where) {
    return detail::attach_tensor(from, options, b, nullptr, where);
}

}  // namespace FERRY_NAMESPACE::ipc
