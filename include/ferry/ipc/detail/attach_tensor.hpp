// ferry: attaches a tensor, and again without a look at its descriptor.
#pragma once

#include <ferry/ipc/detail/open_group.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/wire/check.hpp>

namespace FERRY_NAMESPACE::ipc::detail {

/// The mapping of host memory that an attach has found, until it is unmapped. Does not keep it.
struct known_tensor {
    session_state const* of = nullptr;  // null: none
    std::weak_ptr<mapping_entry> mapping{};
    memory_range range{};
};

/// Attaches a tensor. \param known  of the last call with this descriptor; whether the share is open is not asked again
[[nodiscard]] inline managed_tensor attach_tensor(wire::descriptor const& from, attach_options const& how, handle_ref b,
                                                  std::source_location where, known_tensor* known = nullptr) {
    auto const* t = std::get_if<wire::tensor>(&from.root);
    memory_range found;
    auto held = [&]() -> attachment {
        if (known != nullptr && known->of != nullptr && !how.device)
            if (auto session = session_access::state(how.session); session.get() == known->of)
                if (auto mapping = session->imports().acquire_again(known->mapping, where)) {
                    found = known->range;
                    return attachment{std::move(session), std::move(mapping), true};
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
        if (auto const& at = opened.mapping(); known != nullptr && at != nullptr && at->foreign.empty() && !how.device)
            *known = {call.session.get(), at, found};
        return opened;
    }();
    return make_managed(std::move(held), view_of(*t, found.begin, found.device),
                        found.is_read_only ? flags::read_only : flags::none, version::current, where);
}

}  // namespace FERRY_NAMESPACE::ipc::detail
