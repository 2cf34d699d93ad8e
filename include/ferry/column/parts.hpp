// ferry: the parameters of make_column.
#pragma once

#include <ferry/column/view.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace ferry::inline FERRY_ABI_NAMESPACE {

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
    std::int64_t null_count = -1;  ///< -1: not counted
    std::int64_t offset = 0;
    /// In the order of layout_of; for a view type followed by the data buffers and their lengths.
    std::span<column_buffer const> buffers{};
    std::span<column_parts const> children{};
    column_parts const* dictionary = nullptr;
    std::int64_t flags = 2;       ///< of ArrowSchema; 2 is nullable
    std::string_view metadata{};  ///< in the binary form of ArrowSchema
};

namespace detail {

/// column_parts as the source of a tree.
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

}  // namespace detail
}  // namespace ferry::inline FERRY_ABI_NAMESPACE
