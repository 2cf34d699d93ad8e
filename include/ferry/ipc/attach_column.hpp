// ferry: attach_column, which maps a column that another process shares.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/open_share.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/descriptor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>  // a column shares its owner
#include <numeric>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>  // a column may have several memories

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {
namespace detail {

/// All memories of a descriptor.
class opened_memories {
   public:
    template <class BackEnd>
    void open(wire::descriptor const& d, std::shared_ptr<session_state> const& session, stream_token on,
              opening_place const& how, BackEnd& b, std::source_location where) {
        std::vector<std::uint32_t> order(d.memories.size());
        std::iota(order.begin(), order.end(), 0U);
        auto const name = [&](std::uint32_t i) -> auto& { return d.memories[i].name; };
        std::ranges::sort(order, [&](auto one, auto other) {
            int const difference = name(one).compare(name(other));
            return difference != 0 ? difference < 0 : one < other;
        });
        ranges_.resize(order.size());
        for (auto at = order.begin(); at != order.end();) {
            auto const end = std::ranges::find_if(at, order.end(), [&](auto i) { return name(i) != name(*at); });
            auto const& one = groups_.emplace_back(open_group(d, {at, end}, true, session, on, how, b, where));
            for (std::size_t i = 0; at != end; ++i, ++at) {
                auto const& m = d.memories[*at];
                ranges_[*at] = {one.begin(i), static_cast<std::size_t>(m.length)};
                auto const here = one.device(i, m, how);
                if (groups_.size() == 1 && i == 0) device_ = here;
                if (!is_same_device(device_, here))
                    fail(errc::bad_descriptor, "ferry::ipc::attach_column",
                         message{"memories["} << *at << "] is on another device than the first", where);
            }
        }
    }
    [[nodiscard]] std::span<memory_range const> ranges() const noexcept { return ranges_; }
    [[nodiscard]] ferry::device device() const noexcept { return device_; }

   private:
    std::vector<opened_share> groups_{};
    std::vector<memory_range> ranges_{};
    ferry::device device_{};
};

}  // namespace detail

/// Attaches a column that another process of this user shares, without a copy.
///
/// The rules of `attach` apply. Columns, slices and children share the mappings of all memories, which the last of them
/// removes, on any thread. The column is read-only; host memory is mapped without write access.
///
/// Before any buffer is read, each is checked against the memory that exists, and the structure of the column against
/// the sizes of its buffers. Values are not checked: call `validate` for a full check when the exporter is not trusted.
///
/// \param from     descriptor of a column
/// \param options  as for `attach`
/// \param b        back end; a `handle_back_end` for device memory
/// \param where    source location for errors
/// \return         column that keeps the mapping
/// \throws error  errc::bad_column, with the path of the node; errc::argument: the descriptor of a tensor; as `attach`
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] column attach_column(wire::descriptor const& from, attach_options const& options = {},
                                   BackEnd&& b = host_only,
                                   std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::ipc::attach_column";
    wire::check(from, where);
    auto const* const node = std::get_if<wire::node>(&from.root);
    if (node == nullptr)
        ferry::detail::fail(errc::argument, api,
                            message{"the descriptor is a tensor's, not a column's: call ferry::ipc::attach"}, where);
    if (from.memories.empty())
        ferry::detail::fail(errc::bad_descriptor, api,
                            message{"a column lies in a memory, and the descriptor has none"}, where);
    auto held = std::make_shared<detail::opened_memories>();
    held->open(from, detail::session_access::state(options.session), options.stream, {options.device, options.files}, b,
               where);
    auto const place = held->device();
    auto const ranges = held->ranges();
    return detail::column_of(*node, ranges, std::move(held), place, api, where);
}

/// Overload with default options.
template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] column attach_column(wire::descriptor const& from, BackEnd&& b,
                                   std::source_location where = std::source_location::current()) {
    return ipc::attach_column(from, attach_options{}, b, where);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
