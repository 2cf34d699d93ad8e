// ferry: columns in the words of a descriptor, and back.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/tree.hpp>
#include <ferry/column/view.hpp>
#include <ferry/wire/descriptor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>  // a column shares its owner
#include <source_location>
#include <string>  // of a descriptor
#include <string_view>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// A whole column whose buffers lie in one memory, of which `begin` is the first byte that is exported.
[[nodiscard]] inline wire::node node_of(column_view c, std::byte const* begin) {
    wire::node n;
    n.format = c.format();
    n.name = c.name();
    auto const* const metadata = reinterpret_cast<std::byte const*>(c.metadata().data());
    n.metadata.assign(metadata, metadata + c.metadata().size());
    n.length = c.length();
    n.null_count = c.known_null_count();
    n.offset = c.offset();
    n.flags = c.flags();
    for (auto const& b : c.buffers()) {
        auto const bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(b.bytes, 0));
        if (b.data == nullptr && bytes == 0) n.buffers.emplace_back();
        else
            n.buffers.push_back(
                {0, bytes == 0 ? 0 : static_cast<std::uint64_t>(static_cast<std::byte const*>(b.data) - begin), bytes});
    }
    for (int i = 0; i < c.child_count(); ++i) n.children.push_back(node_of(c.child(i), begin));
    if (c.has_dictionary()) n.dictionary.push_back(node_of(c.dictionary(), begin));
    return n;
}

/// A checked node as the source of a tree.
class node_source {
   public:
    node_source(wire::node const& node, std::byte const* begin) noexcept : node_{&node}, begin_{begin} {}
    [[nodiscard]] std::string_view format() const noexcept { return node_->format; }
    [[nodiscard]] std::string_view name() const noexcept { return node_->name; }
    [[nodiscard]] std::string_view metadata() const noexcept {
        return {reinterpret_cast<char const*>(node_->metadata.data()), node_->metadata.size()};
    }
    [[nodiscard]] std::int64_t flags() const noexcept { return node_->flags; }
    [[nodiscard]] std::int64_t length() const noexcept { return node_->length; }
    [[nodiscard]] std::int64_t null_count() const noexcept { return node_->null_count; }
    [[nodiscard]] std::int64_t offset() const noexcept { return node_->offset; }
    [[nodiscard]] std::size_t buffer_count() const noexcept { return node_->buffers.size(); }
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept {
        auto const& s = node_->buffers[i];
        if (s.memory == wire::no_memory) return {nullptr, 0};
        return {begin_ == nullptr ? nullptr : begin_ + s.offset, static_cast<std::int64_t>(s.length)};
    }
    [[nodiscard]] std::size_t child_count() const noexcept { return node_->children.size(); }
    [[nodiscard]] node_source child(std::size_t i) const noexcept { return {node_->children[i], begin_}; }
    [[nodiscard]] bool has_dictionary() const noexcept { return !node_->dictionary.empty(); }
    [[nodiscard]] node_source dictionary() const noexcept { return {node_->dictionary[0], begin_}; }

   private:
    wire::node const* node_;
    std::byte const* begin_;
};

/// The column of a node that wire::check has passed, in `bytes` bytes from `begin` on, which `owner` keeps.
/// \throws error  errc::bad_column
[[nodiscard]] inline ferry::column column_of(wire::node const& node, std::byte const* begin, std::size_t bytes,
                                             std::shared_ptr<void const> owner, ferry::device on, char const* api,
                                             std::source_location where) {
    auto tree = std::make_shared<ferry::detail::column_tree>();
    tree->owner = std::move(owner);
    static_cast<void>(ferry::detail::build(*tree, node_source{node, begin}, on, {api, where}));
    auto const is_compact = [&](ferry::detail::column_node const& n) {
        auto const is_aligned = [&](column_buffer const& b) {
            return b.bytes == 0 ||
                   (static_cast<std::byte const*>(b.data) - begin) % ferry::detail::arena_alignment == 0;
        };
        return std::ranges::all_of(n.buffers, is_aligned);
    };
    auto const* const nodes = tree->nodes;
    if (begin != nullptr && bytes % ferry::detail::arena_alignment == 0 &&
        std::all_of(nodes, nodes + tree->node_count, is_compact))
        for (std::size_t i = 0; i < tree->node_count; ++i) tree->nodes[i].arena = {begin, bytes};
    return ferry::detail::column_access::make(std::move(tree));
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
