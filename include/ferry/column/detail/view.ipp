// ferry: the engine of column/view.hpp.
#pragma once

#include <ferry/column/view.hpp>

#include <ferry/column/detail/bits.hpp>

namespace FERRY_NAMESPACE {

FERRY_INLINE message column_view::name_of_format() const noexcept {
    message text{"`"};
    detail::put_printable(text, format().substr(0, 40));
    return text << (format().size() > 40 ? "…`" : "`");
}
FERRY_INLINE column_view column_view::find_child(int i, detail::reporter r) const {
    if (i >= 0 && i < child_count()) return node_->children[static_cast<std::size_t>(i)];
    static_cast<void>(report(r, errc::out_of_range,
                             message{"child "} << i << " is out of range: child_count() is " << child_count()
                                               << ": pass an index from 0 to child_count() - 1"));
    return *this;
}
FERRY_INLINE column_view column_view::find_child(std::string_view name, detail::reporter r) const {
    for (auto const& child : node_->children)
        if (child.name == name) return child;
    message text{"the column has no child `"};
    detail::put_printable(text, name);
    static_cast<void>(report(r, errc::argument, text << "`: pass the name of a child"));
    return *this;
}
FERRY_INLINE column_view column_view::find_dictionary(detail::reporter r) const {
    if (has_dictionary()) return *node_->dictionary;
    static_cast<void>(report(r, errc::argument, "the column is not dictionary-encoded: check has_dictionary() first"));
    return *this;
}
FERRY_INLINE column_view column_view::find_slice(std::int64_t begin, std::int64_t length, detail::reporter r) const {
    if (begin >= 0 && length >= 0 && begin <= length_ && length <= length_ - begin)
        return {*node_, offset_ + begin, length};
    static_cast<void>(report(r, errc::out_of_range,
                             message{"items "} << begin << " to " << begin << " + " << length
                                               << " are out of range: length() is " << length_
                                               << ": pass 0 <= begin and begin + length <= length()"));
    return *this;
}
FERRY_INLINE void column_view::check_fields(detail::reporter r) const {
    if (type().id != type_id::structure && type().id != type_id::sparse_union)
        static_cast<void>(report(r, errc::argument,
                                 message{"expected a struct or sparse union, got a column of format "}
                                     << name_of_format() << ": use child()"));
}

namespace detail {

FERRY_INLINE bool visit_nodes(column_view const& c, column_path const& path, node_function* call, void const* f) {
    if (!call(f, c, path)) return false;
    for (int i = 0; i < c.child_count(); ++i) {
        auto const child = child_of(c, i);
        if (!visit_nodes(child, column_path{path, c.type().id, i, child.name()}, call, f)) return false;
    }
    return !c.has_dictionary() || visit_nodes(dictionary_of(c), path.dictionary(), call, f);
}

/// Fails unless the host can read the buffers of the node.
[[nodiscard]] inline bool check_host_node(column_view const& c, reporter r) {
    if (is_host_accessible(c.device())) return true;
    return report(r, errc::not_accessible,
                  message{"the column is on "} << name(c.device().type) << ":" << c.device().id
                                               << ": move it to the host with to()");
}
FERRY_INLINE bool check_host(column_view const& c, reporter r) {
    if (!c.is_mixed()) return check_host_node(c, r);
    return for_each_node(c, column_path{c.name()}, [&](column_view const& n, column_path const& path) {
        if (is_host_accessible(n.device())) return true;
        return report(r, errc::not_accessible,
                      message{} << path << " is on " << name(n.device().type) << ":" << n.device().id
                                << ": move the column to the host with to()");
    });
}
FERRY_INLINE bool check_one_device(column_view const& c, char const* cure, reporter r) {
    if (!c.is_mixed()) return true;
    return for_each_node(c, column_path{c.name()}, [&](column_view const& n, column_path const& path) {
        if (is_same_device(n.device(), c.device())) return true;
        return report(r, errc::device,
                      message{} << path << " is on " << name(n.device().type) << ":" << n.device().id
                                << ", and the column on " << name(c.device().type) << ":" << c.device().id << ": "
                                << cure);
    });
}
FERRY_INLINE std::int64_t count_nulls(column_view const& c, reporter r) {
    if (auto const known = c.known_null_count(); known >= 0) return known;
    if (!check_host_node(c, r)) return 0;
    auto const nulls = c.length() - count_set(c.validity());
    if (c.is_whole()) c.node().null_count.store(nulls, std::memory_order_relaxed);
    return nulls;
}

}  // namespace detail
}  // namespace FERRY_NAMESPACE
