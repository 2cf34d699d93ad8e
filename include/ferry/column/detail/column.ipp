// ferry: the engine of column/column.hpp.
#pragma once

#include <ferry/column/column.hpp>

#include <ferry/column/detail/tree.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

FERRY_INLINE column column_access::make(std::shared_ptr<column_tree const> tree) noexcept {
    auto const& root = tree->root();
    return {std::move(tree), root};
}

FERRY_INLINE column build_column(column_parts const& parts, std::shared_ptr<void const> owner, device on, reporter r,
                                 std::span<std::byte const> arena) {
    auto tree = std::make_shared<column_tree>();
    tree->owner = std::move(owner);
    if (!build(*tree, parts_source{parts}, on, r)) return {};
    for (std::size_t i = 0; i < tree->node_count; ++i) tree->nodes[i].arena = arena;
    return column_access::make(std::move(tree));
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE column make_column(column_parts const& parts, std::shared_ptr<void const> owner, device on,
                                std::source_location where) {
    return detail::build_column(parts, std::move(owner), on, {"ferry::make_column", where});
}
#endif
FERRY_INLINE result<column> try_make_column(column_parts const& parts, std::shared_ptr<void const> owner, device on,
                                            std::source_location where) {
    return detail::attempt<column>("ferry::make_column", where, [&](detail::reporter r) {
        return detail::build_column(parts, std::move(owner), on, r);
    });
}

}  // namespace FERRY_NAMESPACE
