// ferry: the engine of column/make_struct.hpp.
#pragma once

#include <ferry/column/make_struct.hpp>

#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/tree.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <memory>  // shared ownership of the buffers
#include <utility>
#include <vector>  // one owner for each child

namespace FERRY_NAMESPACE {
namespace detail {

/// Reads a column view for a new tree, with the same buffers and devices.
struct view_source : column_view {
    [[nodiscard]] std::size_t buffer_count() const noexcept { return buffers().size(); }
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept { return buffers()[i]; }
    [[nodiscard]] view_source child(std::size_t i) const noexcept { return {child_of(*this, static_cast<int>(i))}; }
    [[nodiscard]] view_source dictionary() const noexcept { return {dictionary_of(*this)}; }
};

/// Reads the root of a struct whose children are existing columns.
struct struct_source : parts_source {
    std::span<column const> columns;

    [[nodiscard]] std::size_t child_count() const noexcept { return columns.size(); }
    [[nodiscard]] view_source child(std::size_t i) const noexcept { return {columns[i].view()}; }
};

FERRY_INLINE column join(column_parts parts, std::span<column const> children, reporter r) {
    column_buffer const none[] = {{}};
    parts.format = "+s";
    parts.length = children.empty() ? 0 : children[0].length();
    parts.null_count = 0;
    parts.buffers = none;
    auto owners = std::make_shared<std::vector<std::shared_ptr<void const>>>();
    for (auto const& c : children) {
        column_path const path{parts.name};
        if (c.length() != parts.length) {
            column_path const its{path, type_id::structure, 0, c.name()};
            static_cast<void>(report(
                r, errc::bad_column,
                node_error(its, message{"it has "} << c.length() << " items, and the first child has " << parts.length,
                           ": pass columns of one length")));
            return {};
        }
        owners->push_back(c.owner());
    }
    auto tree = std::make_shared<column_tree>();
    tree->owner = std::move(owners);
    struct_source const from{parts_source{parts}, children};
    if (!build(*tree, from, children.empty() ? cpu : children[0].device(), r)) return {};
    return column_access::make(std::move(tree));
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE column make_struct(std::span<column const> children, std::string_view name, std::source_location where) {
    return detail::join({.name = name}, children, {"ferry::make_struct", where});
}
#endif
FERRY_INLINE result<column> try_make_struct(std::span<column const> children, std::string_view name,
                                            std::source_location where) {
    return detail::attempt<column>("ferry::make_struct", where,
                                   [&](detail::reporter r) { return detail::join({.name = name}, children, r); });
}

}  // namespace FERRY_NAMESPACE
