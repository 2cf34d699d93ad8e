// ferry: the engine of ipc/attach_column.hpp.
#pragma once

#include <ferry/ipc/attach_column.hpp>

#include <ferry/column/detail/path.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/open_group.hpp>
#include <ferry/wire/check.hpp>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

/// Writes the path of the first buffer in a memory. Returns false if there is none.
inline bool find_buffer(wire::node const& n, std::uint32_t memory, ferry::detail::column_path const& path,
                        message& out) {
    auto const type = parse_format(n.format);
    if (!type) return false;
    for (std::size_t i = 0; i < n.buffers.size(); ++i) {
        if (n.buffers[i].memory != memory) continue;
        auto const layout = layout_of(*type);
        bool const is_known = i < static_cast<std::size_t>(layout.buffer_count);
        out << path << ": " << ferry::name(is_known ? layout.buffers[i].kind : buffer_kind::bytes) << " buffer";
        return true;
    }
    for (std::size_t i = 0; i < n.children.size(); ++i) {
        auto const& child = n.children[i];
        if (find_buffer(child, memory, {path, type->id, static_cast<int>(i), child.name}, out)) return true;
    }
    return !n.dictionary.empty() && find_buffer(n.dictionary[0], memory, path.dictionary(), out);
}
/// Throws the error of a memory again, with the path of the first buffer in it.
[[noreturn]] FERRY_COLD inline void fail_at_buffer(error const& e, wire::node const& root, std::uint32_t memory) {
    message name;
    if (!find_buffer(root, memory, ferry::detail::column_path{root.name}, name)) throw e;
    fail(e.code(), e.api(), name << ": " << e.text(), e.where());
}

FERRY_INLINE column attach_column(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                  known_memory* known, std::source_location where) {
    constexpr auto api = "ferry::ipc::attach_column";
    auto const* const node = std::get_if<wire::node>(&from.root);
    auto held = std::make_shared<std::vector<attachment>>();
    if (known != nullptr && known->of != nullptr) {
        for (std::size_t i = 0; i < known->mappings.size(); ++i)
            if (auto again = known->attach(i, options, where)) held->push_back(std::move(again));
        if (held->size() == known->mappings.size()) return column_of(*node, known->ranges, std::move(held), api, where);
        held->clear();
    }
    wire::check(from, where);
    if (node == nullptr)
        fail(errc::argument, api, where, "the descriptor is a tensor's, not a column's: call ferry::ipc::attach");
    if (from.memories.empty())
        fail(errc::bad_descriptor, api, where,
             "the descriptor of a column has no memory, expected one at least: get a new descriptor from the exporter");
    // Memories of one name are opened together.
    auto const name = [&](std::uint32_t i) -> auto& { return from.memories[i].name; };
    std::vector<std::uint32_t> order(from.memories.size());
    for (std::uint32_t i = 0; auto& one : order) one = i++;
    std::sort(order.begin(), order.end(), [&](auto one, auto other) {
        auto const difference = name(one).compare(name(other));
        return difference < 0 || (difference == 0 && one < other);
    });
    std::vector<memory_range> ranges(order.size());
    attach_call call{from, options, true, where};
    try {
        for (auto at = order.begin(); at != order.end();) {
            auto const end = std::find_if(at, order.end(), [&](auto i) { return name(i) != name(*at); });
            held->push_back(open_group(call, {at, end}, b, ranges));
            at = end;
        }
    } catch (error const& e) {
        fail_at_buffer(e, *node, call.tried);
    }
    if (known != nullptr) known->set(call, *held, ranges);
    return column_of(*node, ranges, std::move(held), api, where);
}

}  // namespace detail

FERRY_INLINE column attach_column(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                  std::source_location where) {
    return detail::attach_column(from, options, b, nullptr, where);
}

FERRY_INLINE bool session::sealed(column_view const& c) const {
    bool is_any = false;
    auto const is_sealed = [&](column_view const& n, auto const&) {
        for (std::size_t i = 0; i < n.buffers().size(); ++i) {
            auto const& b = n.buffers()[i];
            if (b.data == nullptr || b.bytes == 0) continue;
            auto const bytes = static_cast<std::size_t>((std::max)(b.bytes, std::int64_t{1}));  // -1: unknown
            auto const found = state_->regions().find({static_cast<std::byte const*>(b.data), bytes, 0});
            // The lengths of the data of view types, which come last, are made in each process if none are shared.
            bool const is_last_of_views = n.layout().is_variadic && i + 1 == n.buffers().size();
            if (found == nullptr && is_last_of_views) continue;
            if (found == nullptr || !found->memory.is_frozen()) return false;
            is_any = true;
        }
        return true;
    };
    return ferry::detail::for_each_node(c, ferry::detail::column_path{c.name()}, is_sealed) && is_any;
}

}  // namespace FERRY_NAMESPACE::ipc
