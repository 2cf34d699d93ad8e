// ferry: checks of a column that read no byte of it.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>

namespace ferry::inline v0::detail {

/// The checks of one node, with what they need for a message.
class structure_check {
   public:
    structure_check(column_view c, column_path const& path, char const* api, std::source_location where) noexcept
        : c_{c}, path_{path}, api_{api}, where_{where} {}

    void run() const {
        check_lengths();
        check_buffers();
        check_children();
        if (c_.has_dictionary() && !is_integer(c_.type().id))
            refuse(message{"a column with a dictionary has integers as indices, not "} << c_.name_of_format().c_str());
    }

   private:
    [[noreturn]] void refuse(message const& what) const {
        fail(errc::bad_column, api_, message{} << path_ << ": " << what.c_str(), where_);
    }
    [[noreturn]] void refuse_at(int child, message const& what) const {
        structure_check{c_, column_path{path_, c_.type().id, child, c_.child(child).name()}, api_, where_}.refuse(what);
    }

    void check_lengths() const {
        std::int64_t const nulls = c_.node().null_count.load(std::memory_order_relaxed);
        if (c_.length() < 0) refuse(message{"its length is "} << c_.length());
        if (c_.offset() < 0) refuse(message{"its offset is "} << c_.offset());
        if (std::int64_t end = 0; !checked_add(c_.offset(), c_.length(), end))
            refuse(message{"offset "} << c_.offset() << " + length " << c_.length() << " overflows");
        if (nulls < -1 || nulls > c_.node().length)
            refuse(message{"its null count is "} << nulls << ", and its length " << c_.node().length);
        if (nulls > 0 && (is_union(c_.type().id) || c_.type().id == type_id::run_end_encoded))
            refuse(message{"its null count is "} << nulls << ", and columns of type " << c_.name_of_format().c_str()
                                                 << " have no nulls of their own");
    }

    void check_buffers() const {
        auto const layout = c_.layout();
        auto const buffers = c_.buffers();
        auto const expected = static_cast<std::size_t>(layout.buffer_count);
        if (layout.is_variadic ? buffers.size() < expected + 1 : buffers.size() != expected)
            refuse(message{"it has "} << std::uint64_t{buffers.size()} << " buffers, and columns of type "
                                      << c_.name_of_format().c_str() << " have "
                                      << (layout.is_variadic ? "at least " : "")
                                      << std::uint64_t{expected + layout.is_variadic});
        for (std::size_t i = 0; i < expected; ++i) check_buffer(layout.buffers[i], buffers[i]);
        if (!layout.is_variadic) return;
        auto const count = static_cast<std::int64_t>(buffers.size() - expected - 1);
        require(buffers.back(), 8 * count, "lengths of data");
        for (auto const& data : buffers.subspan(expected, static_cast<std::size_t>(count)))
            if (data.data == nullptr && data.bytes > 0)
                refuse(message{"a data buffer of "} << data.bytes << " bytes is null");
    }
    void check_buffer(buffer_layout layout, column_buffer const& b) const {
        if (layout.kind == buffer_kind::validity) {
            std::int64_t const nulls = c_.node().null_count.load(std::memory_order_relaxed);
            if (b.data == nullptr) {
                if (nulls > 0) refuse(message{"its null count is "} << nulls << ", and it has no validity buffer");
                return;
            }
        }
        std::int64_t needed = 0;
        if (c_.length() != 0 && !needed_bytes(c_.type(), layout, c_.offset() + c_.length(), needed))
            refuse(message{"the bytes of its "} << name_of(layout.kind) << " buffer overflow");
        require(b, needed, name_of(layout.kind));
    }
    void require(column_buffer const& b, std::int64_t needed, char const* what) const {
        if (needed > 0 && b.data == nullptr)
            refuse(message{} << what << " buffer is null, needs " << needed << " bytes");
        if (b.bytes < -1) refuse(message{} << what << " buffer holds " << b.bytes << " bytes");
        if (b.bytes != -1 && b.bytes < needed)
            refuse(message{} << what << " buffer holds " << b.bytes << " bytes, needs " << needed);
    }
    [[nodiscard]] static constexpr char const* name_of(buffer_kind kind) noexcept {
        constexpr char const* names[] = {"validity", "data",  "offsets",  "offsets",
                                         "sizes",    "views", "type ids", "data"};
        return names[static_cast<std::size_t>(kind)];
    }

    void check_children() const {
        int const expected = c_.layout().child_count;
        if (expected >= 0 && c_.child_count() != expected)
            refuse(message{"it has "} << c_.child_count() << " children, and columns of type "
                                      << c_.name_of_format().c_str() << " have " << expected);
        auto const end = c_.offset() + c_.length();
        switch (c_.type().id) {
            case type_id::structure:
            case type_id::sparse_union: require_children(end); break;
            case type_id::fixed_size_list: {
                std::int64_t items = 0;
                if (!checked_multiply(end, std::int64_t{c_.type().width}, items)) refuse(message{"its items overflow"});
                require_children(items);
                break;
            }
            case type_id::map: check_map(); break;
            case type_id::run_end_encoded: check_runs(); break;
            default: break;
        }
        if (is_union(c_.type().id)) check_type_ids();
    }
    void require_children(std::int64_t needed) const {
        for (int i = 0; i < c_.child_count(); ++i)
            if (auto const child = c_.child(i); child.length() < needed)
                refuse_at(i, message{"it has "} << child.length() << " items, and its parent needs " << needed);
    }
    void check_map() const {
        auto const entries = c_.child(0);
        if (entries.type().id != type_id::structure || entries.child_count() != 2)
            refuse_at(0, message{"the entries of a map are structs of a key and a value"});
    }
    void check_runs() const {
        auto const ends = c_.child(0), values = c_.child(1);
        auto const id = ends.type().id;
        if (id != type_id::int16 && id != type_id::int32 && id != type_id::int64)
            refuse_at(0, message{"run ends are int16, int32 or int64, not "} << ends.name_of_format().c_str());
        if (ends.has_dictionary()) refuse_at(0, message{"run ends are not dictionary-encoded"});
        if (ends.known_null_count() > 0) refuse_at(0, message{"run ends have no nulls"});
        if (ends.length() > values.length())
            refuse_at(1, message{"there are "} << values.length() << " values for " << ends.length() << " runs");
        if (c_.length() > 0 && ends.length() == 0)
            refuse_at(0, message{"there are no runs for "} << c_.length() << " items");
    }
    void check_type_ids() const {
        int const ids = union_children{c_.type()}.count;
        if (ids != c_.child_count())
            refuse(message{"it has "} << c_.child_count() << " children and " << ids << " type ids");
    }

    column_view c_;
    column_path path_;
    char const* api_;
    std::source_location where_;
};

/// \throws error  errc::bad_column
inline void check_structure(column_view c, column_path const& path, char const* api, std::source_location where) {
    structure_check{c, path, api, where}.run();
    for (int i = 0; i < c.child_count(); ++i) {
        auto const child = c.child(i);
        check_structure(child, column_path{path, c.type().id, i, child.name()}, api, where);
    }
    if (c.has_dictionary()) check_structure(c.dictionary(), path.dictionary(), api, where);
}

}  // namespace ferry::inline v0::detail
