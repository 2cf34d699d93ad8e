// ferry: the engine of column/detail/structure.hpp.
#pragma once

#include <ferry/column/detail/structure.hpp>

#include <ferry/base/detail/checked.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/layout.hpp>

#include <cstddef>

namespace FERRY_NAMESPACE::detail {

/// Checks the structure of one node.
class structure_check {
   public:
    structure_check(column_view c, column_path const& path, reporter r) noexcept : c_{c}, path_{path}, r_{r} {}

    [[nodiscard]] bool run() const {
        if (!check_lengths() || !check_buffers() || !check_children()) return false;
        return !c_.has_dictionary() || is_integer(c_.type().id) ||
               refuse(message{"the indices of a dictionary are integers, not "} << c_.name_of_format());
    }

   private:
    [[nodiscard]] FERRY_COLD bool refuse(message const& what) const {
        return report(r_, errc::bad_column, node_error(path_, what));
    }
    [[nodiscard]] FERRY_COLD bool refuse_at(int child, message const& what) const {
        column_path const path{path_, c_.type().id, child, child_of(c_, child).name()};
        return structure_check{c_, path, r_}.refuse(what);
    }

    [[nodiscard]] bool check_lengths() const {
        std::int64_t const nulls = c_.node().null_count.load(std::memory_order_relaxed);
        if (c_.length() < 0) return refuse(message{"its length is "} << c_.length() << ", expected at least 0");
        if (c_.offset() < 0) return refuse(message{"its offset is "} << c_.offset() << ", expected at least 0");
        if (std::int64_t end = 0; !checked_add(c_.offset(), c_.length(), end))
            return refuse(message{"offset "} << c_.offset() << " + length " << c_.length() << " exceeds 63 bits");
        if (nulls < -1 || nulls > c_.node().length)
            return refuse(message{"its null count is "} << nulls << ", expected -1 to " << c_.node().length
                                                        << ", its length");
        if (nulls > 0 && (is_union(c_.type().id) || c_.type().id == type_id::run_end_encoded))
            return refuse(message{"its null count is "} << nulls << ", and columns of type " << c_.name_of_format()
                                                        << " have no nulls of their own");
        return true;
    }

    [[nodiscard]] bool check_buffers() const {
        auto const layout = c_.layout();
        auto const buffers = c_.buffers();
        auto const expected = static_cast<std::size_t>(layout.buffer_count);
        if (layout.is_variadic ? buffers.size() < expected + 1 : buffers.size() != expected)
            return refuse(message{"it has "} << std::uint64_t{buffers.size()} << " buffers, and columns of type "
                                             << c_.name_of_format() << " have "
                                             << (layout.is_variadic ? "at least " : "")
                                             << std::uint64_t{expected + layout.is_variadic});
        for (std::size_t i = 0; i < expected; ++i)
            if (!check_buffer(layout.buffers[i], buffers[i])) return false;
        if (!layout.is_variadic) return true;
        auto const count = static_cast<std::int64_t>(buffers.size() - expected - 1);
        if (!require(buffers.back(), 8 * count, "lengths of data")) return false;
        for (auto const& data : buffers.subspan(expected, static_cast<std::size_t>(count)))
            if (data.data == nullptr && data.bytes > 0)
                return refuse(message{"a data buffer of "} << data.bytes << " bytes is null, expected its address");
        return true;
    }
    [[nodiscard]] bool check_buffer(buffer_layout layout, column_buffer const& b) const {
        if (layout.kind == buffer_kind::validity && b.data == nullptr) {
            std::int64_t const nulls = c_.node().null_count.load(std::memory_order_relaxed);
            return nulls <= 0 || refuse(message{"its null count is "} << nulls << ", and it has no validity buffer");
        }
        std::int64_t needed = 0;
        if (c_.length() != 0 && !needed_bytes(c_.type(), layout, c_.offset() + c_.length(), needed))
            return refuse(message{"the bytes of its "} << name(layout.kind) << " buffer exceed 63 bits");
        return require(b, needed, name(layout.kind));
    }
    [[nodiscard]] bool require(column_buffer const& b, std::int64_t needed, char const* what) const {
        if (needed > 0 && b.data == nullptr)
            return refuse(message{} << what << " buffer is null, needs " << needed << " bytes");
        if (b.bytes < -1)
            return refuse(message{} << what << " buffer holds " << b.bytes << " bytes, expected -1 (unknown) or more");
        if (b.bytes != -1 && b.bytes < needed)
            return refuse(message{} << what << " buffer holds " << b.bytes << " bytes, needs " << needed);
        return true;
    }
    [[nodiscard]] bool check_children() const {
        int const expected = c_.layout().child_count;
        if (expected >= 0 && c_.child_count() != expected)
            return refuse(message{"it has "} << c_.child_count() << " children, and columns of type "
                                             << c_.name_of_format() << " have " << expected);
        auto const end = c_.offset() + c_.length();
        switch (c_.type().id) {
            case type_id::structure: return require_children(end);
            case type_id::sparse_union: return require_children(end) && check_type_ids();
            case type_id::dense_union: return check_type_ids();
            case type_id::fixed_size_list: {
                std::int64_t items = 0;
                if (!checked_multiply(end, std::int64_t{c_.type().width}, items))
                    return refuse(message{"the number of its items exceeds 63 bits"});
                return require_children(items);
            }
            case type_id::map: return check_map();
            case type_id::run_end_encoded: return check_runs();
            default: return true;
        }
    }
    [[nodiscard]] bool require_children(std::int64_t needed) const {
        for (int i = 0; i < c_.child_count(); ++i)
            if (auto const child = child_of(c_, i); child.length() < needed)
                return refuse_at(i, message{"it has "} << child.length() << " items, and its parent needs " << needed);
        return true;
    }
    [[nodiscard]] bool check_map() const {
        auto const entries = child_of(c_, 0);
        return (entries.type().id == type_id::structure && entries.child_count() == 2) ||
               refuse_at(0, message{"expected structs of a key and a value, the entries of a map"});
    }
    [[nodiscard]] bool check_runs() const {
        auto const ends = child_of(c_, 0), values = child_of(c_, 1);
        auto const id = ends.type().id;
        if (id != type_id::int16 && id != type_id::int32 && id != type_id::int64)
            return refuse_at(0, message{"expected run ends of int16, int32 or int64, got "} << ends.name_of_format());
        if (ends.has_dictionary()) return refuse_at(0, message{"run ends are dictionary-encoded, expected integers"});
        if (ends.known_null_count() > 0) return refuse_at(0, message{"run ends have nulls, expected none"});
        if (ends.length() > values.length())
            return refuse_at(1, message{"there are "} << values.length() << " values for " << ends.length() << " runs");
        return c_.length() == 0 || ends.length() > 0 ||
               refuse_at(0, message{"there are no runs for "} << c_.length() << " items");
    }
    [[nodiscard]] bool check_type_ids() const {
        int const ids = union_children{c_.type()}.count;
        return ids == c_.child_count() ||
               refuse(message{"it has "} << c_.child_count() << " children and " << ids << " type ids");
    }

    column_view c_;
    column_path path_;
    reporter r_;
};

FERRY_INLINE bool check_structure(column_view c, column_path const& path, reporter r) {
    return for_each_node(c, path,
                         [&](column_view n, column_path const& its) { return structure_check{n, its, r}.run(); });
}

FERRY_INLINE bool check_same_type(column_view wanted, column_view c, column_path const& path, std::uint64_t chunk,
                                  reporter r) {
    auto const refuse = [&](column_path const& its, message const& what) {
        return report(r, errc::argument,
                      message{"chunk "} << chunk << " is of another type: "
                                        << node_error(its, what, ": pass chunks of one type, or convert them"));
    };
    if (c.type() != wanted.type())
        return refuse(path,
                      message{"its format is "} << c.name_of_format() << ", expected " << wanted.name_of_format());
    if (c.child_count() != wanted.child_count())
        return refuse(path, message{"it has "} << c.child_count() << " children, expected " << wanted.child_count());
    bool const is_named = c.type().id == type_id::structure || is_union(c.type().id);
    for (int i = 0; i < c.child_count(); ++i) {
        auto const child = child_of(c, i), other = child_of(wanted, i);
        column_path const its{path, c.type().id, i, other.name()};
        if (is_named && child.name() != other.name()) return refuse(its, message{"child "} << i << " has another name");
        if (!check_same_type(other, child, its, chunk, r)) return false;
    }
    if (c.has_dictionary() != wanted.has_dictionary())
        return refuse(path, message{c.has_dictionary() ? "it has a dictionary, expected none"
                                                       : "it has no dictionary, expected one"});
    return !c.has_dictionary() || check_same_type(dictionary_of(wanted), dictionary_of(c), path.dictionary(), chunk, r);
}

}  // namespace FERRY_NAMESPACE::detail
