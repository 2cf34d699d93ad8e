// ferry: a column: a tree of shared, immutable buffers.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/values.hpp>
#include <ferry/column/view.hpp>
#include <ferry/space/back_end_ref.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the buffers
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {
struct column_access;
struct column_tree;
/// The implementation of `column::to`, defined in column/to.hpp.
template <class Where>
struct column_move;
}  // namespace detail

/// A column in Arrow's layout, of any type, in host or device memory. Copies, slices and children share the buffers,
/// and each of them keeps the memory alive. Immutable; copies may be used and destroyed on any thread. The last one
/// releases the memory.
class column : public column_interface<column> {
   public:
    /// Creates an empty column of type null. A column that was moved from has the same value.
    column() = default;
    column(column const&) = default;
    column(column&& other) noexcept
        : owner_{std::move(other.owner_)}, view_{std::exchange(other.view_, column_view{})} {}
    column& operator=(column other) noexcept {
        owner_.swap(other.owner_);
        std::swap(view_, other.view_);
        return *this;
    }
    ~column() = default;

    /// \return  a view, valid as long as the column or a copy of it
    [[nodiscard]] column_view view() const& noexcept { return view_; }
    column_view view() const&& FERRY_DELETED("the view would outlive the column: keep the column in a variable");
    /// Converts to a view, as std::string converts to std::string_view. The view is valid as long as the column.
    operator column_view() const& noexcept { return view_; }

    /// Returns the items as a range of std::optional<T>, which keeps the memory alive; see column_values.
    ///
    /// \tparam T  type of the items
    /// \return       items; `try_values` returns the items or the error
    /// \throws error  errc::dtype: items of another type;  not_accessible: the host cannot read the memory
#if FERRY_HAS_EXCEPTIONS
    template <column_value T>
    [[nodiscard]] column_values<T> values(std::source_location where = std::source_location::current()) const {
        return column_values<T>{view_, owner_, where};
    }
#endif
    template <column_value T>
    [[nodiscard]] result<column_values<T>> try_values(
        std::source_location where = std::source_location::current()) const {
        return column_values<T>::try_make(view_, owner_, where);
    }

    /// Copies the column to a device or into a memory space. Returns the column itself if it is already on that device
    /// or, for a space, if the space contains all of its buffers (`containing_space`). Buffers that the space contains
    /// are not copied. Therefore `ipc::share` with copy_policy::never accepts the result of `to(shared_space)`.
    ///
    /// The copy has one allocation, which contains each byte that the items use once. The copies of buffers that nodes
    /// share are shared as well. The copy of a slice contains all text, all items of lists and all runs, and its
    /// bitmaps begin at a whole byte, so that its offset is below 8. Requires #include <ferry/column/to.hpp>.
    ///
    /// From host memory, one transfer through a staging buffer copies all buffers. From a device, there is one transfer
    /// for each buffer, or one for all if the column has one allocation. The function reads the last offset of text
    /// whose size is unknown.
    ///
    /// A copy to host, pinned or managed memory is complete on return. A copy to device memory is complete when `on`
    /// has run the queued work; the function blocks only to read pinned or managed memory, or an offset. Without a
    /// stream, no work may be pending, and the copy is complete on return. The new column keeps the source of a queued
    /// copy alive. Synchronise other work that uses the new column before it is destroyed. A struct with children on
    /// several devices is copied child by child; the host waits for `on`, and the copy is complete on return.
    ///
    /// \param place  device, whose memory the back end allocates, or memory space
    /// \param b      back end that allocates, copies and waits
    /// \param on     stream on which the column is ready
    /// \return       the column; on failure everything is released. `try_to` returns the column or the error
    /// \throws error           errc::no_backend: the back end does not reach a device;  stream: a null stream, or one
    ///                         of another device;  bad_column: invalid offsets or lengths, with the path of the
    ///                         node; overflow: a size that cannot be represented;  an error of the back end
    /// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
    template <class Where>
        requires(std::convertible_to<Where, ferry::device> || memory_space<Where>)
    [[nodiscard]] column to(Where place, back_end_ref b = host_only, stream_token on = {},
                            std::source_location where = std::source_location::current()) const {
        static_assert(
            requires { sizeof(detail::column_move<Where>); }, "ferry: column::to needs #include <ferry/column/to.hpp>");
        return detail::column_move<Where>::run(*this, place, b, on, where);
    }
    template <class Where>
        requires(std::convertible_to<Where, ferry::device> || memory_space<Where>)
    [[nodiscard]] result<column> try_to(Where place, back_end_ref b = host_only, stream_token on = {},
                                        std::source_location where = std::source_location::current()) const {
        return detail::attempt<column>("ferry::column::to", where,
                                       [&](detail::reporter) { return to(std::move(place), b, on, where); });
    }
    // clang-format off
    FERRY_DELETED_BOTH(to, try_to, (T, Rest&&...) const, "the target is not a device or a memory space: pass ferry::cpu, or ferry::device{ferry::device_type::cuda, id}",
        template <class T, class... Rest> requires(!std::convertible_to<T, ferry::device> && !memory_space<T>));
    // clang-format on
#endif

    /// \return  the owner of the buffers
    [[nodiscard]] std::shared_ptr<void const> const& owner() const noexcept { return owner_; }

   private:
    friend struct detail::column_access;
    friend class column_interface<column>;
    column(std::shared_ptr<void const> owner, column_view view) noexcept : owner_{std::move(owner)}, view_{view} {}
    [[nodiscard]] column_view const& viewed() const noexcept { return view_; }
    [[nodiscard]] column part(column_view const& c) const noexcept { return {owner_, c}; }

    std::shared_ptr<void const> owner_;
    column_view view_;
};

/// One node of a new column, for make_column. An aggregate whose order of members is stable. Owns nothing.
///
/// ```cpp
/// std::int32_t const values[] = {1, 2, 3};
/// ferry::column_buffer const buffers[] = {{}, {values, sizeof values}};   // no validity: no nulls
/// auto const c = ferry::make_column({.format = "i", .length = 3, .buffers = buffers}, owner);
/// ```
struct column_parts {
    std::string_view format{};
    std::string_view name{};
    std::int64_t length = 0;
    std::int64_t null_count = -1;  ///< number of nulls; -1 if unknown
    std::int64_t offset = 0;
    /// Buffers in the order of layout_of; for a view type, followed by the data buffers and a buffer with their
    /// lengths.
    std::span<column_buffer const> buffers{};
    std::span<column_parts const> children{};
    column_parts const* dictionary = nullptr;
    std::int64_t flags = 2;       ///< flags of ArrowSchema; 2 is nullable
    std::string_view metadata{};  ///< key-value pairs in the binary form of ArrowSchema
};

namespace detail {

/// Creates columns from validated trees.
struct column_access {
    [[nodiscard]] static column make(std::shared_ptr<void const> owner, column_view view) noexcept {
        return {std::move(owner), view};
    }
    [[nodiscard]] FERRY_INLINE static column make(std::shared_ptr<column_tree const> tree) noexcept;
};

/// Reads column_parts for a new tree.
class parts_source {
   public:
    explicit parts_source(column_parts const& parts) noexcept : parts_{&parts} {}
    [[nodiscard]] std::string_view format() const noexcept { return parts_->format; }
    [[nodiscard]] std::string_view name() const noexcept { return parts_->name; }
    [[nodiscard]] std::string_view metadata() const noexcept { return parts_->metadata; }
    [[nodiscard]] std::int64_t flags() const noexcept { return parts_->flags; }
    [[nodiscard]] std::int64_t length() const noexcept { return parts_->length; }
    [[nodiscard]] std::int64_t known_null_count() const noexcept { return parts_->null_count; }
    [[nodiscard]] std::int64_t offset() const noexcept { return parts_->offset; }
    [[nodiscard]] std::size_t buffer_count() const noexcept { return parts_->buffers.size(); }
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept { return parts_->buffers[i]; }
    [[nodiscard]] std::size_t child_count() const noexcept { return parts_->children.size(); }
    [[nodiscard]] parts_source child(std::size_t i) const noexcept { return parts_source{parts_->children[i]}; }
    [[nodiscard]] bool has_dictionary() const noexcept { return parts_->dictionary != nullptr; }
    [[nodiscard]] parts_source dictionary() const noexcept { return parts_source{*parts_->dictionary}; }

   private:
    column_parts const* parts_;
};

/// Implements make_column and try_make_column; returns an empty column on failure. `arena` is the allocation with all
/// buffers, if there is one.
[[nodiscard]] FERRY_INLINE column build_column(column_parts const& parts, std::shared_ptr<void const> owner, device on,
                                               reporter r, std::span<std::byte const> arena = {});

}  // namespace detail

/// Creates a column from buffers on one device. Formats, names and metadata are copied. Validates the structure without
/// reading the buffers; see validate.
///
/// \param parts  description of the column
/// \param owner  owner of the buffers; released with the last column, or on failure
/// \param on     device of the buffers
/// \return       column; `try_make_column` returns the column or the error
/// \throws error           errc::bad_column: invalid parts; the message has the path of the node
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] FERRY_INLINE column make_column(column_parts const& parts, std::shared_ptr<void const> owner,
                                              device on = cpu,
                                              std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<column> try_make_column(column_parts const& parts, std::shared_ptr<void const> owner,
                                                          device on = cpu,
                                                          std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/column.ipp>
#endif
