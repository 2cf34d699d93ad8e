// ferry: the engine of ipc/attach.hpp.
#pragma once

#include <ferry/ipc/attach.hpp>

#include <ferry/base/error.hpp>
#include <ferry/ipc/detail/open_group.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/wire/check.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace FERRY_NAMESPACE::ipc {

FERRY_INLINE managed_tensor attach(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                   std::source_location where) {
    wire::check(from, where);
    auto const* const t = std::get_if<wire::tensor>(&from.root);
    if (t == nullptr)
        detail::fail(errc::argument, detail::attach_api,
                     message{"the descriptor is a column's, not a tensor's: call ferry::ipc::attach_column"}, where);
    if (from.memories.size() != 1 || t->memory != 0)
        detail::fail(errc::bad_descriptor, detail::attach_api,
                     message{"the descriptor of a tensor must have one memory, not "}
                         << std::uint64_t{from.memories.size()} << ": get a new descriptor from the exporter",
                     where);
    std::uint32_t const only = 0;
    detail::memory_range found;
    detail::attach_call call{from, options, has(t->flags, flags::read_only), where};
    auto held = detail::open_group(call, {&only, 1}, b, [&](auto, auto const& memory) { found = memory; });
    return make_managed(std::move(held), detail::view_of(*t, found.begin, found.device),
                        found.is_read_only ? flags::read_only : flags::none, version::current, where);
}

}  // namespace FERRY_NAMESPACE::ipc
