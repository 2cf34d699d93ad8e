// ferry: the engine of ipc/attach_column.hpp.
#pragma once

#include <ferry/ipc/attach_column.hpp>

#include <ferry/column/detail/path.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/open_group.hpp>
#include <ferry/tensor/make_managed.hpp>
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
/// Calls `f` for the tensor or column of a descriptor, or for each of its list, until it returns true.
template <class F>
bool any_item(wire::descriptor const& from, F f) {
    if (auto const* const all = std::get_if<wire::list>(&from.root))
        return std::any_of(all->begin(), all->end(), [&](auto const& one) { return std::visit(f, one); });
    if (auto const* const t = std::get_if<wire::tensor>(&from.root)) return f(*t);
    return f(std::get<wire::node>(from.root));
}
/// Throws the error of a memory again, with the path of the first buffer in it.
[[noreturn]] FERRY_COLD inline void fail_at_buffer(error const& e, wire::descriptor const& from, std::uint32_t memory) {
    message name;
    std::uint64_t number = 0;
    bool const is_found = any_item(from, [&](auto const& one) {
        ++number;
        if constexpr (requires { one.format; })
            return find_buffer(one, memory, ferry::detail::column_path{one.name}, name);
        else return one.memory == memory && (name << "item " << number - 1, true);
    });
    if (!is_found) throw e;
    fail(e.code(), e.api(), name << ": " << e.text(), e.where());
}

/// All memories of a descriptor. Its tensors and columns share the ownership.
struct held_memories {
    std::vector<attachment> held{};
    std::vector<memory_range> ranges{};
};

[[nodiscard]] inline std::shared_ptr<held_memories> attach_memories(wire::descriptor const& from,
                                                                    attach_options const& options, handle_ref b,
                                                                    known_memory* known, char const* api,
                                                                    std::source_location where) {
    auto const made = std::make_shared<held_memories>();
    auto& [held, ranges] = *made;
    if (known != nullptr && known->of != nullptr) {
        for (std::size_t i = 0; i < known->mappings.size(); ++i)
            if (auto again = known->attach(i, options, where)) held.push_back(std::move(again));
        ranges = known->ranges;
        if (held.size() == known->mappings.size()) return made;
        held.clear();
    }
    wire::check(from, where);
    if (from.memories.empty())
        fail(errc::bad_descriptor, api, where,
             "the descriptor has no memory, expected one at least: get a new descriptor from the exporter");
    std::vector<bool> is_writable(from.memories.size());  // for each memory: whether a tensor in it may be written
    static_cast<void>(any_item(from, [&](auto const& one) {
        if constexpr (!requires { one.format; })
            if (!has(one.flags, flags::read_only)) is_writable[one.memory] = true;
        return false;
    }));
    // Memories with the same name are opened together.
    auto const name = [&](std::uint32_t i) -> auto& { return from.memories[i].name; };
    std::vector<std::uint32_t> order(from.memories.size());
    for (std::uint32_t i = 0; auto& one : order) one = i++;
    std::sort(order.begin(), order.end(), [&](auto one, auto other) {
        auto const difference = name(one).compare(name(other));
        return difference < 0 || (difference == 0 && one < other);
    });
    ranges.assign(order.size(), {});
    attach_call call{from, options, true, where};
    try {
        for (auto at = order.begin(); at != order.end();) {
            auto const end = std::find_if(at, order.end(), [&](auto i) { return name(i) != name(*at); });
            call.is_read_only = std::none_of(at, end, [&](auto i) { return is_writable[i]; });
            held.push_back(open_group(call, {at, end}, b, ranges));
            at = end;
        }
    } catch (error const& e) {
        fail_at_buffer(e, from, call.tried);
    }
    if (known != nullptr) known->set(call, held, ranges);
    return made;
}

FERRY_INLINE column attach_column(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                  known_memory* known, std::source_location where) {
    constexpr auto api = "ferry::ipc::attach_column";
    auto const* const node = std::get_if<wire::node>(&from.root);
    if (node == nullptr) {
        wire::check(from, where);
        fail(errc::argument, api, where,
             "the descriptor is not that of a column: call ferry::ipc::attach or attach_list");
    }
    auto const memories = attach_memories(from, options, b, known, api, where);
    return column_of(*node, memories->ranges, memories, api, where);
}

}  // namespace detail

FERRY_INLINE column attach_column(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                  std::source_location where) {
    return detail::attach_column(from, options, b, nullptr, where);
}

FERRY_INLINE std::vector<item> attach_list(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                           std::source_location where) {
    constexpr auto api = "ferry::ipc::attach_list";
    auto const memories = detail::attach_memories(from, options, b, nullptr, api, where);
    std::vector<item> all;
    static_cast<void>(detail::any_item(from, [&](auto const& one) {
        if constexpr (requires { one.format; }) {
            bool const is_alone = !std::holds_alternative<wire::list>(from.root);
            all.emplace_back(detail::column_of(one, memories->ranges, memories, api, where, is_alone));
        } else {
            auto const& found = memories->ranges[one.memory];
            all.emplace_back(make_managed(
                std::shared_ptr<detail::held_memories>{memories}, detail::view_of(one, found.begin, found.device),
                found.is_read_only ? flags::read_only : flags::none, version::current, where));
        }
        return false;
    }));
    return all;
}

FERRY_INLINE bool session::sealed(column_view const& c) const {
    bool is_any = false;
    auto const is_sealed = [&](column_view const& n, auto const&) {
        for (std::size_t i = 0; i < n.buffers().size(); ++i) {
            auto const& b = n.buffers()[i];
            if (b.data == nullptr || b.bytes == 0) continue;
            auto const bytes = static_cast<std::size_t>((std::max)(b.bytes, std::int64_t{1}));  // -1: unknown
            auto const found = state_->regions().find({static_cast<std::byte const*>(b.data), bytes, 0});
            // The last buffer of a view type, the lengths of its data, is made in each process unless it is shared.
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
