// ferry: a view of a column: one node of a tree of buffers, or a slice of it.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/bitmap.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>

#include <atomic>  // a null count is computed on demand, on any thread
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>

namespace FERRY_NAMESPACE {

class column_view;

/// An immutable buffer of a column.
struct column_buffer {
    void const* data = nullptr;
    std::int64_t bytes = -1;  ///< size, at least as large as type, offset and length require; -1 if unknown

    friend bool operator==(column_buffer const&, column_buffer const&) = default;
};

namespace detail {

/// One node of a column's tree: the fields of ArrowSchema and ArrowArray. Filled once, then read by any number of
/// threads. The default is an empty column of type null.
struct column_node {
    column_type type{};
    std::string_view format{"n"}, name{}, metadata{};
    std::int64_t flags = 0, length = 0, offset = 0;
    mutable std::atomic<std::int64_t> null_count{-1};
    ferry::device device = cpu;  // device of the buffers
    bool is_mixed = false;       // whether a node below is on another device
    std::span<column_buffer const> buffers{};
    std::span<column_node const> children{};
    column_node const* dictionary = nullptr;
    std::span<std::byte const> arena{};  // one allocation with the buffers of the tree; empty if unknown
};

/// Fails unless the host can read the memory of all nodes.
[[nodiscard]] FERRY_INLINE bool check_host(column_view const& c, reporter r);
[[nodiscard]] FERRY_INLINE std::int64_t count_nulls(column_view const& c, reporter r);

}  // namespace detail

/// The members that column and column_view have in common. The parts of a column keep the memory alive; those of a
/// column_view do not.
///
/// \tparam Self  column or column_view
template <class Self>
class column_interface {
   public:
    /// \return  the type. Type, format and name are valid as long as the column or a copy of it
    [[nodiscard]] column_type const& type() const noexcept { return node().type; }
    /// \return  Arrow's format string; for a dictionary-encoded column, that of the indices
    [[nodiscard]] std::string_view format() const noexcept { return node().format; }
    [[nodiscard]] std::string_view name() const noexcept { return node().name; }
    /// \return  number of items
    [[nodiscard]] std::int64_t length() const noexcept { return self().viewed().length_; }
    /// \return  number of items before the first one in each buffer
    [[nodiscard]] std::int64_t offset() const noexcept { return self().viewed().offset_; }
    /// \return  the device of the buffers of this node or, without buffers, of the first child. Children of a struct
    ///          may be on other devices
    [[nodiscard]] ferry::device device() const noexcept { return node().device; }
    [[nodiscard]] int child_count() const noexcept { return static_cast<int>(node().children.size()); }
    [[nodiscard]] bool has_dictionary() const noexcept { return node().dictionary != nullptr; }

    /// Returns the number of null items or, for a dictionary-encoded column, of null indices. Unions and run-end
    /// encoded columns have no validity and return 0. An unknown count is computed, and stored if this is not a slice.
    ///
    /// \return       number of nulls; `try_null_count` returns the number or the error
    /// \throws error  errc::not_accessible: the count is unknown and the host cannot read the validity
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] std::int64_t null_count(std::source_location where = std::source_location::current()) const {
        return detail::count_nulls(self().viewed(), {null_count_api, where});
    }
#endif
    [[nodiscard]] result<std::int64_t> try_null_count(
        std::source_location where = std::source_location::current()) const {
        return detail::attempt<std::int64_t>(
            null_count_api, where, [&](detail::reporter r) { return detail::count_nulls(self().viewed(), r); });
    }
    /// Returns a child, to which the offset is not applied.
    ///
    /// \param i      index in [0, child_count())
    /// \return       child; `try_child` returns the child or the error
    /// \throws error  errc::out_of_range: no such child
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] Self child(int i, std::source_location where = std::source_location::current()) const {
        return self().part(self().viewed().find_child(i, detail::reporter{child_api, where}));
    }
#endif
    [[nodiscard]] result<Self> try_child(int i, std::source_location where = std::source_location::current()) const {
        return detail::attempt<Self>(child_api, where,
                                     [&](detail::reporter r) { return self().part(self().viewed().find_child(i, r)); });
    }
    /// Returns the first child with a name.
    ///
    /// \param name   name
    /// \return       child; `try_child` returns the child or the error
    /// \throws error  errc::argument: no such child
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] Self child(std::string_view name,
                             std::source_location where = std::source_location::current()) const {
        return self().part(self().viewed().find_child(name, detail::reporter{child_api, where}));
    }
#endif
    [[nodiscard]] result<Self> try_child(std::string_view name,
                                         std::source_location where = std::source_location::current()) const {
        return detail::attempt<Self>(
            child_api, where, [&](detail::reporter r) { return self().part(self().viewed().find_child(name, r)); });
    }
    /// Returns the values of a dictionary-encoded column.
    ///
    /// \return       values; `try_dictionary` returns the values or the error
    /// \throws error  errc::argument: not dictionary-encoded
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] Self dictionary(std::source_location where = std::source_location::current()) const {
        return self().part(self().viewed().find_dictionary(detail::reporter{dictionary_api, where}));
    }
#endif
    [[nodiscard]] result<Self> try_dictionary(std::source_location where = std::source_location::current()) const {
        return detail::attempt<Self>(
            dictionary_api, where, [&](detail::reporter r) { return self().part(self().viewed().find_dictionary(r)); });
    }

    /// Returns a slice, which shares the buffers.
    ///
    /// \param begin   index of the first item
    /// \param length  number of items
    /// \return        slice; `try_slice` returns the slice or the error
    /// \throws error  errc::out_of_range: items outside of the column
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] Self slice(std::int64_t begin, std::int64_t length,
                             std::source_location where = std::source_location::current()) const {
        return self().part(self().viewed().find_slice(begin, length, detail::reporter{slice_api, where}));
    }
#endif
    [[nodiscard]] result<Self> try_slice(std::int64_t begin, std::int64_t length,
                                         std::source_location where = std::source_location::current()) const {
        return detail::attempt<Self>(slice_api, where, [&](detail::reporter r) {
            return self().part(self().viewed().find_slice(begin, length, r));
        });
    }
    /// Returns the slice of a child of a struct or sparse union that belongs to the items of this column.
    ///
    /// \param i      index in [0, child_count())
    /// \return       slice; `try_field` returns the slice or the error
    /// \throws error  errc::out_of_range: no such child;  argument: a column of another type
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] Self field(int i, std::source_location where = std::source_location::current()) const {
        return self().part(self().viewed().find_field(i, detail::reporter{field_api, where}));
    }
#endif
    [[nodiscard]] result<Self> try_field(int i, std::source_location where = std::source_location::current()) const {
        return detail::attempt<Self>(field_api, where,
                                     [&](detail::reporter r) { return self().part(self().viewed().find_field(i, r)); });
    }
    /// Overload for the first child with a name.
    ///
    /// \param name   name
    /// \return       slice; `try_field` returns the slice or the error
    /// \throws error  errc::argument: no such child, or a column of another type
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] Self field(std::string_view name,
                             std::source_location where = std::source_location::current()) const {
        return self().part(self().viewed().find_field(name, detail::reporter{field_api, where}));
    }
#endif
    [[nodiscard]] result<Self> try_field(std::string_view name,
                                         std::source_location where = std::source_location::current()) const {
        return detail::attempt<Self>(
            field_api, where, [&](detail::reporter r) { return self().part(self().viewed().find_field(name, r)); });
    }

   private:
    friend Self;
    column_interface() = default;
    [[nodiscard]] Self const& self() const noexcept { return static_cast<Self const&>(*this); }
    [[nodiscard]] detail::column_node const& node() const noexcept { return *self().viewed().node_; }
    static constexpr char const *child_api = "ferry::column::child", *dictionary_api = "ferry::column::dictionary",
                                *slice_api = "ferry::column::slice", *field_api = "ferry::column::field",
                                *null_count_api = "ferry::column::null_count";
};

/// A non-owning view of a column, three words in size. Valid while a column of its tree exists. Immutable; any number
/// of threads may read it. The offset, in items, applies to validity, data and offsets, but not to children; see
/// `field`.
class column_view : public column_interface<column_view> {
   public:
    /// Constructs a view of an empty column of type null.
    column_view() noexcept : node_{&nothing()} {}
    column_view(detail::column_node const& node) noexcept : column_view{node, node.offset, node.length} {}
    /// Constructs a view of items of a node. The range is not checked.
    ///
    /// \param node    node of a validated column
    /// \param offset  index of the first item in the buffers
    /// \param length  number of items
    column_view(detail::column_node const& node, std::int64_t offset, std::int64_t length) noexcept
        : node_{&node}, offset_{offset}, length_{length} {}

    /// \return  key-value pairs in the binary form of ArrowSchema, see metadata_view; empty if there are none
    [[nodiscard]] std::string_view metadata() const noexcept { return node_->metadata; }
    /// \return  the flags of ArrowSchema
    [[nodiscard]] std::int64_t flags() const noexcept { return node_->flags; }
    [[nodiscard]] bool is_nullable() const noexcept { return (node_->flags & 2) != 0; }
    /// \return  whether a child, at any depth, is on another device than this node; see make_struct
    [[nodiscard]] bool is_mixed() const noexcept { return node_->is_mixed; }

    /// \return  the buffers, to which the offset is not applied; see layout_of
    [[nodiscard]] std::span<column_buffer const> buffers() const noexcept { return node_->buffers; }
    [[nodiscard]] column_layout layout() const noexcept { return layout_of(node_->type); }

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

    /// Returns the items as a range of std::optional<T>, valid as long as the view. Defined in column/values.hpp; see
    /// column_values.
    ///
    /// \tparam T  type of the items
    /// \return       items; `try_values` returns the items or the error
    /// \throws error  errc::dtype: items of another type;  not_accessible: the host cannot read the memory
#if FERRY_HAS_EXCEPTIONS
    template <class T>
    [[nodiscard]] auto values(std::source_location where = std::source_location::current()) const;
#endif
    template <class T>
    [[nodiscard]] auto try_values(std::source_location where = std::source_location::current()) const;

    /// Fails unless the host can read the memory of this column and of its children.
    ///
    /// \param api    public function that reports the error
    /// \return       `try_require_host`: success, or the error
    /// \throws error  errc::not_accessible: the host cannot read the memory
#if FERRY_HAS_EXCEPTIONS
    void require_host(char const* api, std::source_location where = std::source_location::current()) const {
        static_cast<void>(detail::check_host(*this, {api, where}));
    }
#endif
    [[nodiscard]] result<> try_require_host(char const* api,
                                            std::source_location where = std::source_location::current()) const {
        return detail::attempt<void>(api, where, [&](detail::reporter r) { return detail::check_host(*this, r); });
    }
    /// \return  the format for messages, at most 40 characters of it
    [[nodiscard]] FERRY_INLINE message name_of_format() const noexcept;
    [[nodiscard]] detail::column_node const& node() const noexcept { return *node_; }
    /// \return  whether the view has all items of its node
    [[nodiscard]] bool is_whole() const noexcept { return offset_ == node_->offset && length_ == node_->length; }

   private:
    template <class>
    friend class column_interface;
    [[nodiscard]] column_view const& viewed() const noexcept { return *this; }
    [[nodiscard]] static column_view part(column_view const& c) noexcept { return c; }
    [[nodiscard]] static detail::column_node const& nothing() noexcept {
        static detail::column_node const one;
        return one;
    }
    // Implement child, field and dictionary; return an unspecified view after an error.
    [[nodiscard]] FERRY_INLINE column_view find_child(int i, detail::reporter r) const;
    [[nodiscard]] FERRY_INLINE column_view find_child(std::string_view name, detail::reporter r) const;
    [[nodiscard]] FERRY_INLINE column_view find_dictionary(detail::reporter r) const;
    [[nodiscard]] FERRY_INLINE column_view find_slice(std::int64_t begin, std::int64_t length,
                                                      detail::reporter r) const;
    FERRY_INLINE void check_fields(detail::reporter r) const;
    [[nodiscard]] column_view find_field(auto const& which, detail::reporter r) const {
        check_fields(r);
        return find_child(which, r).find_slice(offset_, length_, r);
    }

    detail::column_node const* node_;
    std::int64_t offset_ = 0, length_ = 0;
};

namespace detail {

/// Returns child `i`, which must exist.
[[nodiscard]] inline column_view child_of(column_view const& c, int i) noexcept {
    return c.node().children[static_cast<std::size_t>(i)];
}
[[nodiscard]] inline column_view dictionary_of(column_view const& c) noexcept { return *c.node().dictionary; }

/// Returns whether the offset of a column applies to its children.
[[nodiscard]] constexpr bool slices_children(type_id id) noexcept {
    return id == type_id::structure || id == type_id::sparse_union || id == type_id::fixed_size_list;
}
/// Returns the part of child `i` that belongs to the items from `begin` to the end of `c`, whose offset must apply to
/// its children. `begin` is counted from the first item of the buffers. The range was checked with the structure.
[[nodiscard]] inline column_view part_of_child(column_view const& c, int i, std::int64_t begin) noexcept {
    auto const child = child_of(c, i);
    std::int64_t const each = c.type().id == type_id::fixed_size_list ? c.type().width : 1;
    return {child.node(), child.offset() + begin * each, (c.offset() + c.length() - begin) * each};
}

using node_function = bool(void const* f, column_view const& c, column_path const& path);
FERRY_INLINE bool visit_nodes(column_view const& c, column_path const& path, node_function* call, void const* f);
/// Calls `f` with each node of a tree and its path, until it returns false.
/// \return  false if a call did
template <class F>
[[nodiscard]] bool for_each_node(column_view const& c, column_path const& path, F const& f) {
    auto* const call = +[](void const* to, column_view const& node, column_path const& its) -> bool {
        return (*static_cast<F const*>(to))(node, its);
    };
    return visit_nodes(c, path, call, &f);
}
/// Fails unless all nodes are on one device; the message ends with `cure`.
[[nodiscard]] FERRY_INLINE bool check_one_device(column_view const& c, char const* cure, reporter r);

}  // namespace detail
}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/view.ipp>
#endif
