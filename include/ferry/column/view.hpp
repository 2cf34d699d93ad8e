// ferry: a column that is borrowed: one node of a tree of buffers, or a slice of it.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/bitmap.hpp>
#include <ferry/column/detail/count_bits.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>

#include <atomic>  // a null count is computed when somebody asks for it, on any thread
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>

namespace ferry::inline v0 {

/// Bytes of a column's buffer; immutable.
struct column_buffer {
    void const* data = nullptr;
    std::int64_t bytes = -1;  ///< -1: nobody said; what the column's type, offset and length need is there

    friend bool operator==(column_buffer const&, column_buffer const&) = default;
};

namespace detail {

/// One node of a column's tree: what ArrowSchema and ArrowArray say. Filled once, then read by any number of threads.
/// By default a column of type null without items.
struct column_node {
    column_type type{};
    std::string_view format{"n"}, name{}, metadata{};
    std::int64_t flags = 0, length = 0, offset = 0;
    mutable std::atomic<std::int64_t> null_count{-1};
    ferry::device device = cpu;
    std::span<column_buffer const> buffers{};
    std::span<column_node const> children{};
    column_node const* dictionary = nullptr;
    std::span<std::byte const> arena{};  // one allocation with all buffers of the tree; empty: nobody knows
};

}  // namespace detail

/// A column, borrowed: a handle of three words that is passed by value. Valid while a column of its tree lives.
/// Immutable; any number of threads may read it. One logical offset, in items, applies to validity, data and offsets
/// alike; children are as they are stored: see `field` and `items` for what the offset makes of them.
class column_view {
   public:
    /// Nothing: a column of type null and length 0.
    column_view() noexcept : node_{&nothing()} {}
    column_view(detail::column_node const& node) noexcept : node_{&node}, offset_{node.offset}, length_{node.length} {}

    [[nodiscard]] column_type const& type() const noexcept { return node_->type; }
    /// Arrow's format string, as it came. Of a dictionary-encoded column: its indices'.
    [[nodiscard]] std::string_view format() const noexcept { return node_->format; }
    [[nodiscard]] std::string_view name() const noexcept { return node_->name; }
    /// Key-value pairs in ArrowSchema's binary form; empty when there are none. See column/metadata.hpp.
    [[nodiscard]] std::string_view metadata() const noexcept { return node_->metadata; }
    /// ArrowSchema's flags.
    [[nodiscard]] std::int64_t flags() const noexcept { return node_->flags; }
    [[nodiscard]] bool is_nullable() const noexcept { return (node_->flags & 2) != 0; }
    /// Items.
    [[nodiscard]] std::int64_t length() const noexcept { return length_; }
    /// Items before the first one, in every buffer.
    [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
    [[nodiscard]] ferry::device device() const noexcept { return node_->device; }

    /// The buffers as they are stored: the offset is not applied. Two for most types; see layout_of.
    [[nodiscard]] std::span<column_buffer const> buffers() const noexcept { return node_->buffers; }
    [[nodiscard]] column_layout layout() const noexcept { return layout_of(node_->type); }

    [[nodiscard]] int child_count() const noexcept { return static_cast<int>(node_->children.size()); }
    /// A child as it is stored. \throws error  errc::out_of_range
    [[nodiscard]] column_view child(int i, std::source_location where = std::source_location::current()) const {
        if (i < 0 || i >= child_count())
            detail::fail(errc::out_of_range, "ferry::column::child",
                         message{"there is no child "} << i << ": there are " << child_count(), where);
        return node_->children[static_cast<std::size_t>(i)];
    }
    /// The first child of this name. \throws error  errc::argument
    [[nodiscard]] column_view child(std::string_view name,
                                    std::source_location where = std::source_location::current()) const {
        return child(index_of(name, where), where);
    }
    [[nodiscard]] bool has_dictionary() const noexcept { return node_->dictionary != nullptr; }
    /// The values that the indices stand for. \throws error  errc::argument when the column is not dictionary-encoded
    [[nodiscard]] column_view dictionary(std::source_location where = std::source_location::current()) const {
        if (node_->dictionary == nullptr)
            detail::fail(errc::argument, "ferry::column::dictionary", message{"the column is not dictionary-encoded"},
                         where);
        return *node_->dictionary;
    }

    /// `length` items from `begin` on; the buffers are the same. \throws error  errc::out_of_range
    [[nodiscard]] column_view slice(std::int64_t begin, std::int64_t length,
                                    std::source_location where = std::source_location::current()) const {
        if (begin < 0 || length < 0 || begin > length_ || length > length_ - begin)
            detail::fail(errc::out_of_range, "ferry::column::slice",
                         message{"items "} << begin << " to " << begin << " + " << length << " of " << length_, where);
        column_view part{*this};
        part.offset_ += begin;
        part.length_ = length;
        return part;
    }
    /// The items of a struct's or sparse union's child that belong to this column's: the offset is applied.
    /// \throws error  errc::out_of_range, argument: a column of another type
    [[nodiscard]] column_view field(int i, std::source_location where = std::source_location::current()) const {
        if (type().id != type_id::structure && type().id != type_id::sparse_union)
            detail::fail(errc::argument, "ferry::column::field",
                         message{"only structs and sparse unions have fields; this column's format is "}
                             << name_of_format().c_str(),
                         where);
        return child(i, where).slice(offset_, length_, where);
    }
    [[nodiscard]] column_view field(std::string_view name,
                                    std::source_location where = std::source_location::current()) const {
        return field(index_of(name, where), where);
    }

    /// A bit for each item; all set when no validity is stored. Off the host its bits must not be read.
    [[nodiscard]] bitmap_view validity() const noexcept {
        bool const is_stored = layout().has_validity() && !node_->buffers.empty();
        return {is_stored ? node_->buffers[0].data : nullptr, offset_, length_};
    }
    /// Whether nulls are known not to exist without a bit being read.
    [[nodiscard]] bool is_without_nulls() const noexcept {
        if (type().id == type_id::null) return length_ == 0;
        return validity().is_all_set() || length_ == 0 || node_->null_count.load(std::memory_order_relaxed) == 0;
    }
    /// The null count if it is known without reading a bit, else -1.
    [[nodiscard]] std::int64_t known_null_count() const noexcept {
        if (type().id == type_id::null) return length_;
        if (is_without_nulls()) return 0;
        return is_whole() ? node_->null_count.load(std::memory_order_relaxed) : -1;
    }
    /// Items that are null: of a dictionary-encoded column its indices. Unions and run-end encoded columns have none of
    /// their own. Counted when nobody has said it, and remembered for a whole column.
    /// \throws error  errc::not_accessible when it would have to be counted in memory that the host cannot read
    [[nodiscard]] std::int64_t null_count(std::source_location where = std::source_location::current()) const {
        if (auto const known = known_null_count(); known >= 0) return known;
        require_host("ferry::column::null_count", where);
        auto const nulls = length_ - detail::count_set(validity());
        if (is_whole()) node_->null_count.store(nulls, std::memory_order_relaxed);
        return nulls;
    }

    /// The items as values of `T`, which borrow: see column_values in column/values.hpp, the header that defines this.
    template <class T>
    [[nodiscard]] auto values(std::source_location where = std::source_location::current()) const;

    /// \throws error  errc::not_accessible
    void require_host(char const* api, std::source_location where = std::source_location::current()) const {
        if (!is_host_accessible(device()))
            detail::fail(errc::not_accessible, api,
                         message{"the column is on "} << ferry::name(device().type) << ":" << device().id
                                                      << ": move it to the host with to()",
                         where);
    }
    /// The format for messages: what is longer is cut.
    [[nodiscard]] message name_of_format() const noexcept {
        message text{"`"};
        for (char const c : format().substr(0, 40)) text << c;
        return text << (format().size() > 40 ? "…`" : "`");
    }
    [[nodiscard]] detail::column_node const& node() const noexcept { return *node_; }

   private:
    [[nodiscard]] static detail::column_node const& nothing() noexcept {
        static detail::column_node const one;
        return one;
    }
    [[nodiscard]] bool is_whole() const noexcept { return offset_ == node_->offset && length_ == node_->length; }
    [[nodiscard]] int index_of(std::string_view name, std::source_location where) const {
        for (int i = 0; i < child_count(); ++i)
            if (node_->children[static_cast<std::size_t>(i)].name == name) return i;
        message text{"there is no child `"};
        for (char const c : name) text << c;
        detail::fail(errc::argument, "ferry::column::child", text << "`", where);
    }

    detail::column_node const* node_;
    std::int64_t offset_ = 0, length_ = 0;
};

}  // namespace ferry::inline v0
