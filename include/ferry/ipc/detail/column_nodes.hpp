// ferry: creates columns from the nodes of a descriptor.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/tree.hpp>
#include <ferry/column/view.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/wire/descriptor.hpp>
#include <ferry/wire/detail/place.hpp>

#include <memory>  // a column shares its owner
#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <map>
#include <utility>

namespace FERRY_NAMESPACE::ipc::detail {

/// The owner of a column: its memory, and the lengths of the data buffers of view types on the host. The lengths are
/// not part of a descriptor, because Arrow's producers make them for each export, and the slices of the descriptor
/// contain them.
struct column_owner {
    std::shared_ptr<void const> memory{};
    std::map<wire::node const*, std::vector<std::int64_t>> lengths{};

    void add(wire::node const& n) {
        bool const is_view = n.format[0] == 'v' && n.buffers.size() > 3 && n.buffers.back().memory == wire::no_memory;
        if (is_view)
            for (auto& all = lengths[&n]; all.size() + 3 < n.buffers.size();)
                all.push_back(static_cast<std::int64_t>(n.buffers[all.size() + 2].length));
        for (auto const& child : n.children) add(child);
        for (auto const& dictionary : n.dictionary) add(dictionary);
    }
};

/// Reads a checked node of a descriptor, from which `build` makes the tree of a column.
class node_source {
   public:
    node_source(wire::node const& node, std::span<memory_range const> memories, column_owner const& owner) noexcept
        : node_{&node}, memories_{memories}, owner_{&owner} {}
    [[nodiscard]] std::string_view format() const noexcept { return node_->format; }
    [[nodiscard]] std::string_view name() const noexcept { return node_->name; }
    [[nodiscard]] std::string_view metadata() const noexcept {
        return {reinterpret_cast<char const*>(node_->metadata.data()), node_->metadata.size()};
    }
    [[nodiscard]] std::int64_t flags() const noexcept { return node_->flags; }
    [[nodiscard]] std::int64_t length() const noexcept { return node_->length; }
    [[nodiscard]] std::int64_t known_null_count() const noexcept { return node_->null_count; }
    [[nodiscard]] std::int64_t offset() const noexcept { return node_->offset; }
    /// Returns the device of the buffers or, without buffers, of the first child that has some.
    [[nodiscard]] std::optional<ferry::device> device() const noexcept {
        for (auto const& s : node_->buffers)
            if (s.memory != wire::no_memory) return memories_[s.memory].device;
        for (std::size_t i = 0; i < child_count(); ++i)
            if (auto const d = child(i).device()) return d;
        return std::nullopt;
    }
    [[nodiscard]] std::size_t buffer_count() const noexcept { return node_->buffers.size(); }
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept {
        auto const& s = node_->buffers[i];
        if (s.memory == wire::no_memory) {
            bool const is_last = i + 1 == node_->buffers.size() && device().value_or(cpu).type == device_type::cpu;
            auto const made = is_last ? owner_->lengths.find(node_) : owner_->lengths.end();
            if (made == owner_->lengths.end()) return {nullptr, 0};
            return {made->second.data(), static_cast<std::int64_t>(8 * made->second.size())};
        }
        auto const* const begin = memories_[s.memory].begin;
        return {begin == nullptr ? nullptr : begin + s.offset, static_cast<std::int64_t>(s.length)};
    }
    [[nodiscard]] std::size_t child_count() const noexcept { return node_->children.size(); }
    [[nodiscard]] node_source child(std::size_t i) const noexcept { return {node_->children[i], memories_, *owner_}; }
    [[nodiscard]] bool has_dictionary() const noexcept { return !node_->dictionary.empty(); }
    [[nodiscard]] node_source dictionary() const noexcept { return {node_->dictionary[0], memories_, *owner_}; }

   private:
    wire::node const* node_;
    std::span<memory_range const> memories_;
    column_owner const* owner_;
};

/// Fails unless all buffers of each node are on one device.
[[nodiscard]] inline bool check_devices(wire::node const& n, std::span<memory_range const> memories,
                                        wire::detail::place const& here, wire::detail::caller const& by) {
    memory_range const* first = nullptr;
    for (std::size_t i = 0; i < n.buffers.size(); ++i) {
        if (n.buffers[i].memory == wire::no_memory) continue;
        auto const& m = memories[n.buffers[i].memory];
        if (first == nullptr) first = &m;
        if (!is_same_device(first->device, m.device))
            return by.refuse(here / "buffers" / i, " is on ", ferry::name(m.device.type), ":", m.device.id,
                             ", and the first buffer of its node on ", ferry::name(first->device.type), ":",
                             first->device.id, ", expected one device for each node");
    }
    for (std::size_t i = 0; i < n.children.size(); ++i)
        if (!check_devices(n.children[i], memories, here / "children" / i, by)) return false;
    return n.dictionary.empty() || check_devices(n.dictionary[0], memories, here / "dictionary", by);
}

/// Creates the column of a node that wire::check has accepted, in one or more memories that `owner` owns. `is_alone` is
/// true if the memories contain nothing else.
/// \throws error  errc::bad_column, bad_descriptor
[[nodiscard]] inline ferry::column column_of(wire::node const& node, std::span<memory_range const> memories,
                                             std::shared_ptr<void const> owner, char const* api,
                                             std::source_location where, bool is_alone = true) {
    static_cast<void>(check_devices(node, memories, wire::detail::place{} / "column", {api, where}));
    auto const kept = std::make_shared<column_owner>(column_owner{std::move(owner)});
    kept->add(node);
    auto tree = std::make_shared<ferry::detail::column_tree>();
    tree->owner = kept;
    static_cast<void>(
        ferry::detail::build(*tree, node_source{node, memories, *kept}, memories[0].device, {api, where}));
    if (is_alone && memories.size() == 1)
        for (std::size_t i = 0; i < tree->node_count; ++i)
            tree->nodes[i].arena = {memories[0].begin, memories[0].bytes};
    return ferry::detail::column_access::make(std::move(tree));
}

}  // namespace FERRY_NAMESPACE::ipc::detail
