// ferry: a column that is owned: a tree of shared, immutable buffers.
#pragma once

#include <ferry/column/detail/tree.hpp>
#include <ferry/column/parts.hpp>
#include <ferry/column/values.hpp>
#include <ferry/column/view.hpp>
#include <ferry/space/back_end.hpp>

#include <concepts>
#include <cstdint>
#include <memory>  // buffers are shared by columns, slices, children and exports
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {
namespace detail {
struct column_access;
/// What `column::to` does; column/to.hpp defines it.
template <class Where>
struct column_move;
}  // namespace detail

/// A column of Arrow's: any type, nested or not, on the host or on a device. A value that shares its buffers: copies,
/// slices and children cost no copy of data, and each keeps the memory alive alone. Immutable; copies may be used from
/// any thread, and the last one, wherever it dies, releases the memory.
class column {
   public:
    /// Of type null and length 0, as is a column that was moved from.
    column() = default;
    column(column const&) = default;
    column(column&& other) noexcept
        : owner_{std::move(other.owner_)}, view_{std::exchange(other.view_, column_view{})} {}
    column& operator=(column const&) = default;
    column& operator=(column&& other) noexcept {
        column taken{std::move(other)};
        owner_.swap(taken.owner_);
        std::swap(view_, taken.view_);
        return *this;
    }
    ~column() = default;

    /// The column, borrowed, with all that can be read of it.
    [[nodiscard]] column_view view() const& noexcept { return view_; }
    column_view view() const&& FERRY_DELETED("the view would outlive the column: keep the column in a variable");
    /// For calls that take a view, also of temporaries, as std::string converts to std::string_view: what keeps it
    /// keeps a column.
    operator column_view() const& noexcept { return view_; }

    /// Type, format and name are borrowed: they live as long as the column, or a copy of it.
    [[nodiscard]] column_type const& type() const noexcept { return view_.type(); }
    [[nodiscard]] std::string_view format() const noexcept { return view_.format(); }
    [[nodiscard]] std::string_view name() const noexcept { return view_.name(); }
    [[nodiscard]] std::int64_t length() const noexcept { return view_.length(); }
    [[nodiscard]] std::int64_t offset() const noexcept { return view_.offset(); }
    [[nodiscard]] ferry::device device() const noexcept { return view_.device(); }
    /// See column_view::null_count.
    [[nodiscard]] std::int64_t null_count(std::source_location where = std::source_location::current()) const {
        return view_.null_count(where);
    }

    [[nodiscard]] int child_count() const noexcept { return view_.child_count(); }
    /// A child as it is stored: this column's offset is not applied; see field. \throws error  errc::out_of_range,
    /// argument
    [[nodiscard]] column child(int i, std::source_location where = std::source_location::current()) const {
        return {owner_, view_.child(i, where)};
    }
    [[nodiscard]] column child(std::string_view name,
                               std::source_location where = std::source_location::current()) const {
        return {owner_, view_.child(name, where)};
    }
    /// The items of a struct's child that belong to this column's. \throws error  errc::out_of_range, argument
    [[nodiscard]] column field(int i, std::source_location where = std::source_location::current()) const {
        return {owner_, view_.field(i, where)};
    }
    [[nodiscard]] column field(std::string_view name,
                               std::source_location where = std::source_location::current()) const {
        return {owner_, view_.field(name, where)};
    }
    [[nodiscard]] bool has_dictionary() const noexcept { return view_.has_dictionary(); }
    [[nodiscard]] column dictionary(std::source_location where = std::source_location::current()) const {
        return {owner_, view_.dictionary(where)};
    }
    /// `length` items from `begin` on. \throws error  errc::out_of_range
    [[nodiscard]] column slice(std::int64_t begin, std::int64_t length,
                               std::source_location where = std::source_location::current()) const {
        return {owner_, view_.slice(begin, length, where)};
    }

    /// The items as values of `T`, which keep the memory alive: `prices[i]` is an optional. See column_values.
    /// \throws error  errc::dtype, not_accessible
    template <column_value T>
    [[nodiscard]] column_values<T> values(std::source_location where = std::source_location::current()) const {
        return column_values<T>{view_, owner_, where};
    }

    /// The column on `place`: a device, whose memory comes from the back end, or a memory space. The same column, and
    /// no copy, when it is there already; else one in one allocation, as `compact` writes it: slices are cut, bits and
    /// offsets begin at 0, and the type is kept.
    ///
    /// One copy for the whole tree: what the host reads is written into one staging buffer and copied from there; a
    /// column that came whole from `to` or `compact` is copied as it lies, and so is an attached one, if nothing in it
    /// is a slice. Of another one on a device the host fetches what it uses: for each depth of the tree one wait, and a
    /// copy for each of its buffers. Null counts of columns that the host reads, or has fetched, are known after.
    ///
    /// Needs #include <ferry/column/to.hpp>.
    ///
    /// `on`: a stream on which the column is ready. On the host, in pinned and in managed memory the data is there on
    /// return. On other devices it is there once `on` got so far; nothing blocks where the source is the host or one
    /// copy. Without a stream nothing may be pending, and the data is there on return. The new column owns its memory,
    /// and a column that a queued copy still reads lives on in it; finish your own work before you drop it.
    ///
    /// \throws error  errc::no_backend, stream, bad_column (what the host reads of it does not hold together, with the
    ///                node's path), overflow; what the back end reports;  std::bad_alloc. Then everything was released.
    template <class Where, class BackEnd = host_back_end const&>
        requires((std::convertible_to<Where, ferry::device> || memory_space<Where>) &&
                 back_end<std::remove_reference_t<BackEnd>>)
    [[nodiscard]] column to(Where place, BackEnd&& b = host_only, stream_token on = {},
                            std::source_location where = std::source_location::current()) const {
        static_assert(
            requires { sizeof(detail::column_move<Where>); }, "ferry: column::to needs #include <ferry/column/to.hpp>");
        return detail::column_move<Where>::run(*this, place, b, on, where);
    }

    /// What keeps the buffers alive.
    [[nodiscard]] std::shared_ptr<void const> const& owner() const noexcept { return owner_; }

   private:
    friend struct detail::column_access;
    column(std::shared_ptr<void const> owner, column_view view) noexcept : owner_{std::move(owner)}, view_{view} {}

    std::shared_ptr<void const> owner_;
    column_view view_;
};

namespace detail {

/// Makes columns of trees that have been checked.
struct column_access {
    [[nodiscard]] static column make(std::shared_ptr<void const> owner, column_view view) noexcept {
        return {std::move(owner), view};
    }
    [[nodiscard]] static column make(std::shared_ptr<column_tree const> tree) noexcept {
        auto const& root = tree->root();
        return {std::move(tree), root};
    }
};

}  // namespace detail

/// A column of buffers that `owner` keeps alive, all of them on one device. Formats, names and metadata are copied; the
/// structure is checked (`validate`), and no byte is read. On failure the owner has been dropped.
///
/// \throws error  errc::bad_column: what is wrong, with the node's path;  std::bad_alloc
[[nodiscard]] inline column make_column(column_parts const& parts, std::shared_ptr<void const> owner, device on = cpu,
                                        std::source_location where = std::source_location::current()) {
    auto tree = std::make_shared<detail::column_tree>();
    tree->owner = std::move(owner);
    detail::build(*tree, detail::parts_source{parts}, on, "ferry::make_column", where);
    return detail::column_access::make(std::move(tree));
}

}  // namespace ferry::inline v0
