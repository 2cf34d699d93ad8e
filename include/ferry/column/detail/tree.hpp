// ferry: the tree of a column: its nodes, the descriptions of its buffers, and its text, in one allocation.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/structure.hpp>
#include <ferry/column/metadata.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // the tree is shared
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// The maximum number of nodes from the root to a leaf. The limit also ends the walk of a struct that refers to itself.
inline constexpr int max_column_depth = 64;
/// The maximum number of nodes of a tree.
inline constexpr std::size_t max_column_nodes = std::size_t{1} << 22;

/// The tree of a column. Derived classes keep other objects alive with it.
struct column_tree {
    std::unique_ptr<std::byte[]> memory{};  // one allocation for nodes, buffer descriptions and text
    column_node* nodes = nullptr;           // the root is the first
    std::shared_ptr<void const> owner{};    // owner of the data
    std::size_t node_count = 0;

    [[nodiscard]] column_node const& root() const noexcept { return nodes[0]; }
};

/// The numbers of nodes, buffers and characters of a tree.
struct column_size {
    std::size_t nodes = 0, buffers = 0, text = 0;
};

/// Reports errc::bad_column, and returns nothing, for a format that is not valid.
[[nodiscard]] inline std::optional<column_type> parse_or_report(std::string_view format, column_path const& path,
                                                                reporter r) {
    if (auto const type = parse_format(format)) return type;
    message cause{"the format `"};
    put_printable(cause, format.substr(0, 40));
    static_cast<void>(
        report(r, errc::bad_column,
               node_error(path, cause << "` is not a type of Arrow", ": correct the format in the producer")));
    return std::nullopt;
}

template <class Source>
[[nodiscard]] bool measure(Source const& from, column_size& out, int depth, column_path const& path, reporter r) {
    if (depth > max_column_depth)
        return report(r, errc::bad_column,
                      node_error(path, message{"the tree is deeper than "} << max_column_depth << " nodes"));
    auto const children = static_cast<std::size_t>(from.child_count());
    if (++out.nodes > max_column_nodes || children > max_column_nodes)
        return report(
            r, errc::bad_column,
            node_error(path, message{"the tree has more than "} << std::uint64_t{max_column_nodes} << " nodes"));
    out.buffers += from.buffer_count();
    out.text += from.format().size() + from.name().size() + from.metadata().size();
    // The texts of an ArrowSchema end at the first NUL.
    for (auto const& [what, text] :
         {std::pair{"format", std::string_view{from.format()}}, std::pair{"name", std::string_view{from.name()}}})
        if (auto const at = text.find('\0'); at != text.npos)
            return report(r, errc::bad_column,
                          node_error(path, message{"byte "} << std::uint64_t{at} << " of its " << what
                                                            << " is NUL, which ends the string in a schema"));
    auto const type = parse_or_report(from.format(), path, r);
    if (!type) return false;
    // An ArrowSchema does not contain the size of its metadata, so a consumer would read beyond the end of invalid
    // metadata.
    std::string_view const metadata = from.metadata();
    if (std::size_t size = 0;
        !metadata.empty() && !measure_metadata(metadata.data(), metadata.data() + metadata.size(), size))
        return report(
            r, errc::bad_column,
            node_error(path, message{"its metadata of "} << std::uint64_t{metadata.size()}
                                                         << " bytes is invalid: a size is negative, or exceeds it"));
    for (std::size_t i = 0; i < children; ++i) {
        auto const child = from.child(i);
        column_path const its{path, type->id, static_cast<int>(i), child.name()};
        if (!measure(child, out, depth + 1, its, r)) return false;
    }
    return !from.has_dictionary() || measure(from.dictionary(), out, depth + 1, path.dictionary(), r);
}

/// Writes nodes into a tree that has room for them.
class column_writer {
   public:
    column_writer(column_tree& tree, column_size const& size) noexcept
        : nodes_{tree.nodes + 1},
          buffers_{reinterpret_cast<column_buffer*>(tree.nodes + size.nodes)},
          text_{reinterpret_cast<char*>(buffers_ + size.buffers)} {}

    /// Writes the root, and the nodes below it. `on` is the device of the nodes whose source gives none.
    template <class Source>
    void write(Source const& from, column_node& out, device on) {
        out.format = keep(from.format());
        out.name = keep(from.name());
        out.metadata = keep(from.metadata());
        out.type = *parse_format(out.format);
        out.flags = from.flags();
        out.length = from.length();
        out.offset = from.offset();
        out.null_count.store(from.known_null_count(), std::memory_order_relaxed);
        if constexpr (requires { from.device(); }) on = std::optional<device>{from.device()}.value_or(on);
        out.device = on;
        auto const buffers = from.buffer_count();
        for (std::size_t i = 0; i < buffers; ++i) std::construct_at(buffers_ + i, from.buffer(i));
        out.buffers = {buffers_, buffers};
        buffers_ += buffers;
        auto const children = static_cast<std::size_t>(from.child_count());
        std::span const below{nodes_, children + from.has_dictionary()};  // the children of a node are adjacent
        nodes_ += below.size();
        for (std::size_t i = 0; i < children; ++i) write(from.child(i), below[i], on);
        out.children = below.first(children);
        if (from.has_dictionary()) {
            write(from.dictionary(), below.back(), on);
            out.dictionary = &below.back();
        }
        for (auto const& node : below)
            out.is_mixed = out.is_mixed || node.is_mixed || !is_same_device(node.device, out.device);
    }

   private:
    [[nodiscard]] std::string_view keep(std::string_view text) noexcept {
        char* const begin = text_;
        text_ += text.copy(text_, text.size());
        return {begin, text.size()};
    }

    column_node* nodes_;
    column_buffer* buffers_;
    char* text_;
};

/// Fills a tree from a source that has been measured, and checks the structure.
template <class Source>
[[nodiscard]] bool fill(column_tree& tree, Source const& from, column_size const& size, device on,
                        column_path const& path, reporter r) {
    static_assert(std::is_trivially_destructible_v<column_node> && alignof(column_node) == alignof(column_buffer));
    tree.memory = std::make_unique_for_overwrite<std::byte[]>(size.nodes * sizeof(column_node) +
                                                              size.buffers * sizeof(column_buffer) + size.text);
    tree.nodes = reinterpret_cast<column_node*>(tree.memory.get());
    tree.node_count = size.nodes;
    std::uninitialized_default_construct_n(tree.nodes, size.nodes);
    column_writer{tree, size}.write(from, tree.nodes[0], on);
    return check_structure(tree.root(), path, r);
}

/// Fills a tree from a source, and checks the structure. The functions of a source are those of parts_source, and must
/// return the same values on each call. A source may also give the device of a node; without it, the node is on the
/// device of its parent, and the root on `on`.
template <class Source>
[[nodiscard]] bool build(column_tree& tree, Source const& from, device on, reporter r) {
    column_size size;
    column_path const path{from.name()};
    return measure(from, size, 1, path, r) && fill(tree, from, size, on, path, r);
}

}  // namespace FERRY_NAMESPACE::detail
