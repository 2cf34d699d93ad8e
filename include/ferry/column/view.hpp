// ferry: a view of a column: one node of a tree of buffers, or a slice of it.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/bitmap.hpp>
#include <ferry/column/detail/count_bits.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>

#include <atomic>  // a null count is computed on demand, on any thread
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>

namespace ferry::inline v0 {

/// An immutable buffer of a column.
struct column_buffer {
    void const* data = nullptr;
    std::int64_t bytes = -1;  ///< -1: unknown; at least as many as type, offset and length require

    friend bool operator==(column_buffer const&, column_buffer const&) = default;
};

namespace detail {

/// One node of a column's tree: the fields of ArrowSchema and ArrowArray. Filled once, then read by any number of
/// threads. By default an empty column of type null.
struct column_node {
    column_type type{};
    std::string_view format{"n"}, name{}, metadata{};
    std::int64_t flags = 0, length = 0, offset = 0;
    mutable std::atomic<std::int64_t> null_count{-1};
    ferry::device device = cpu;
    std::span<column_buffer const> buffers{};
    std::span<column_node const> children{};
    column_node const* dictionary = nullptr;
    std::span<std::byte const> arena{};  // the allocation with all buffers of the tree; empty: unknown
};

}  // namespace detail

/// A non-owning view of a column, three words in size. Valid while a column of its tree exists. Immutable; any number
/// of threads may read it. The offset, in items, applies to validity, data and offsets. It does not apply to children:
/// see `field`.
class column_view {
   public:
    /// An empty column of type null.
    column_view() noexcept : node_{&nothing()} {}
    column_view(detail::column_node const& node) noexcept : node_{&node}, offset_{node.offset}, length_{node.length} {}

    [[nodiscard]] column_type const& type() const noexcept { return node_->type; }
    /// \return  Arrow's format string; of a dictionary-encoded column that of the indices
    [[nodiscard]] std::string_view format() const noexcept { return node_->format; }
    [[nodiscard]] std::string_view name() const noexcept { return node_->name; }
    /// \return  key-value pairs in the binary form of ArrowSchema, see metadata_view; empty if there are none
    [[nodiscard]] std::string_view metadata() const noexcept { return node_->metadata; }
    /// \return  the flags of ArrowSchema
    [[nodiscard]] std::int64_t flags() const noexcept { return node_->flags; }
    [[nodiscard]] bool is_nullable() const noexcept { return (node_->flags & 2) != 0; }
    /// \return  number of items
    [[nodiscard]] std::int64_t length() const noexcept { return length_; }
    /// \return  number of items before the first one in each buffer
    [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
    [[nodiscard]] ferry::device device() const noexcept { return node_->device; }

    /// \return  the buffers, to which the offset is not applied; see layout_of
    [[nodiscard]] std::span<column_buffer const> buffers() const noexcept { return node_->buffers; }
    [[nodiscard]] column_layout layout() const noexcept { return layout_of(node_->type); }

    [[nodiscard]] int child_count() const noexcept { return static_cast<int>(node_->children.size()); }
    /// Returns a child, to which the offset is not applied.
    ///
    /// \param i      index in [0, child_count())
    /// \param where  source location of the caller
    /// \throws error  errc::out_of_range: no such child
    [[nodiscard]] column_view child(int i, std::source_location where = std::source_location::current()) const {
        if (i < 0 || i >= child_count())
            detail::fail(errc::out_of_range, "ferry::column::child",
                         message{"child "} << i << " is out of range: child_count() is " << child_count(), where);
        return node_->children[static_cast<std::size_t>(i)];
    }
    /// Returns the first child with a name.
    ///
    /// \param name   name
    /// \param where  source location of the caller
    /// \throws error  errc::argument: no such child
    [[nodiscard]] column_view child(std::string_view name,
                                    std::source_location where = std::source_location::current()) const {
        return child(index_of(name, where), where);
    }
    [[nodiscard]] bool has_dictionary() const noexcept { return node_->dictionary != nullptr; }
    /// Returns the values of a dictionary-encoded column.
    ///
    /// \param where  source location of the caller
    /// \throws error  errc::argument: not dictionary-encoded
    [[nodiscard]] column_view dictionary(std::source_location where = std::source_location::current()) const {
        if (node_->dictionary == nullptr)
            detail::fail(errc::argument, "ferry::column::dictionary",
                         message{"the column is not dictionary-encoded: check has_dictionary() first"}, where);
        return *node_->dictionary;
    }

    /// Returns a slice, which shares the buffers.
    ///
    /// \param begin   index of the first item
    /// \param length  number of items
    /// \param where   source location of the caller
    /// \throws error  errc::out_of_range: items outside of the column
    [[nodiscard]] column_view slice(std::int64_t begin, std::int64_t length,
                                    std::source_location where = std::source_location::current()) const {
        if (begin < 0 || length < 0 || begin > length_ || length > length_ - begin)
            detail::fail(errc::out_of_range, "ferry::column::slice",
                         message{"items "} << begin << " to " << begin << " + " << length
                                           << " are out of range: length() is " << length_,
                         where);
        column_view part{*this};
        part.offset_ += begin;
        part.length_ = length;
        return part;
    }
    /// Returns the slice of a child of a struct or sparse union that belongs to the items of this column.
    ///
    /// \param i      index in [0, child_count())
    /// \param where  source location of the caller
    /// \throws error  errc::out_of_range: no such child;  argument: a column of another type
    [[nodiscard]] column_view field(int i, std::source_location where = std::source_location::current()) const {
        if (type().id != type_id::structure && type().id != type_id::sparse_union)
            detail::fail(errc::argument, "ferry::column::field",
                         message{"expected a struct or sparse union, got a column of format "}
                             << name_of_format().c_str() << ": use child()",
                         where);
        return child(i, where).slice(offset_, length_, where);
    }
    /// Overload for the first child with a name.
    ///
    /// \param name   name
    /// \param where  source location of the caller
    /// \throws error  errc::argument: no such child, or a column of another type
    [[nodiscard]] column_view field(std::string_view name,
                                    std::source_location where = std::source_location::current()) const {
        return field(index_of(name, where), where);
    }

    /// \return  a bit for each item; all set if the column has no validity. In device memory the bits must not be read
    [[nodiscard]] bitmap_view validity() const noexcept {
        bool const is_stored = layout().has_validity() && !node_->buffers.empty();
        return {is_stored ? node_->buffers[0].data : nullptr, offset_, length_};
    }
    /// \return  true if the column is known to have no nulls, without reading the validity
    [[nodiscard]] bool is_without_nulls() const noexcept {
        if (type().id == type_id::null) return length_ == 0;
        return validity().is_all_set() || length_ == 0 || node_->null_count.load(std::memory_order_relaxed) == 0;
    }
    /// \return  the null count if it is known without reading the validity, otherwise -1
    [[nodiscard]] std::int64_t known_null_count() const noexcept {
        if (type().id == type_id::null) return length_;
        if (is_without_nulls()) return 0;
        return is_whole() ? node_->null_count.load(std::memory_order_relaxed) : -1;
    }
    /// Returns the number of items that are null: of a dictionary-encoded column the null indices. Unions and run-end
    /// encoded columns have no validity and return 0. An unknown count is computed, and stored if this is not a slice.
    ///
    /// \param where  source location of the caller
    /// \throws error  errc::not_accessible: the count is unknown and the host cannot read the validity
    [[nodiscard]] std::int64_t null_count(std::source_location where = std::source_location::current()) const {
        if (auto const known = known_null_count(); known >= 0) return known;
        require_host("ferry::column::null_count", where);
        auto const nulls = length_ - detail::count_set(validity());
        if (is_whole()) node_->null_count.store(nulls, std::memory_order_relaxed);
        return nulls;
    }

    /// Returns the items as a range of std::optional<T>, valid as long as the view. Defined in column/values.hpp; see
    /// column_values.
    ///
    /// \tparam T  type of the items
    /// \param where  source location of the caller
    /// \throws error  errc::dtype: items of another type;  not_accessible: the host cannot read the memory
    template <class T>
    [[nodiscard]] auto values(std::source_location where = std::source_location::current()) const;

    /// Throws unless the host can read the memory.
    ///
    /// \param api    public function that reports the error
    /// \param where  source location of the caller
    /// \throws error  errc::not_accessible: the host cannot read the memory
    void require_host(char const* api, std::source_location where = std::source_location::current()) const {
        if (!is_host_accessible(device()))
            detail::fail(errc::not_accessible, api,
                         message{"the column is on "} << ferry::name(device().type) << ":" << device().id
                                                      << ": move it to the host with to()",
                         where);
    }
    /// \return  the format for messages, at most 40 characters of it
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
        message text{"the column has no child `"};
        for (char const c : name) text << c;
        detail::fail(errc::argument, "ferry::column::child", text << "`", where);
    }

    detail::column_node const* node_;
    std::int64_t offset_ = 0, length_ = 0;
};

}  // namespace ferry::inline v0
