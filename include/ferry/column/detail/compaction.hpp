// ferry: what it takes to write a column, or several in a row, into one allocation without what it does not need: as
// data.
#pragma once

#include <ferry/column/detail/tree.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>  // as many nodes as the column has

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Every buffer begins at a multiple of this, and is padded with zeros to one: what Arrow recommends.
inline constexpr std::int64_t arena_alignment = 64;
/// Index of what is not there.
inline constexpr std::uint32_t nowhere = 0xffff'ffff;

/// Bytes of a source that are read.
struct source_range {
    std::byte const* at = nullptr;
    std::int64_t bytes = 0;
};

/// A step of the filling: what is read of one source, and where it goes.
struct fill_job {
    enum class step : std::uint8_t {
        bytes,        ///< copies
        bits,         ///< copies; without a range: ones
        offsets,      ///< − subtract + add; checks that they grow
        run_ends,     ///< min(− subtract, limit) + add; checks that they grow
        indices,      ///< + add; checks that they are in [0, limit)
        list_views,   ///< starts − subtract + add, and sizes
        dense_union,  ///< starts + the table's entry for their child
        views,        ///< buffer and offset by the table
        numbers,      ///< the table itself
        clear_items,  ///< zero where the node is null
        clear_text,   ///< as above, for what offsets point to
        zero,         ///< all of the buffer
    };
    step kind{};
    bool is_signed = false;
    std::int32_t width = 0;                           ///< of an item: bytes; 0: a bit
    std::uint32_t node = 0;                           ///< whose validity says what is null
    std::uint32_t buffer = 0, other = nowhere;        ///< written: planned buffers
    std::uint32_t range = nowhere, second = nowhere;  ///< read
    std::int64_t begin = 0;                           ///< the first item of the range: bytes for `bytes`, else items
    std::int64_t at = 0;                              ///< the first item of the buffer, as above
    std::int64_t count = 0;
    std::int64_t subtract = 0, add = 0, limit = 0;
    std::size_t table = 0;  ///< where its part of `numbers` begins
};

struct planned_buffer {
    std::int64_t bytes = -1;       ///< -1: absent
    std::int64_t offset = -1;      ///< in the arena
    std::uint32_t same = nowhere;  ///< the buffer that has the same bytes already
};

struct planned_node {
    column_node const* like = nullptr;  ///< whose format, name and metadata it has
    std::int64_t flags = 0, length = 0, null_count = 0;
    std::uint32_t first_buffer = 0, buffers = 0, first_child = 0, children = 0, dictionary = nowhere;
    std::uint32_t parent = nowhere;
    int place = 0;  ///< among its parent's children; -1: its dictionary
};

/// The plan: nodes with the root first, children of one node side by side.
struct compaction {
    std::vector<planned_node> nodes{};
    std::vector<planned_buffer> buffers{};
    std::vector<source_range> ranges{};
    std::vector<fill_job> jobs{};
    std::vector<std::int64_t> numbers{};
    std::int64_t arena = 0;  ///< bytes

    [[nodiscard]] planned_buffer const& buffer(std::uint32_t i) const noexcept {
        auto const& b = buffers[i];
        return b.same == nowhere ? b : buffers[b.same];
    }
};

/// A planned column as the source of a tree, with its arena at `begin`.
class planned_source {
   public:
    planned_source(compaction const& plan, std::uint32_t node, std::byte const* begin) noexcept
        : plan_{&plan}, node_{node}, begin_{begin} {}
    [[nodiscard]] std::string_view format() const noexcept { return self().like->format; }
    [[nodiscard]] std::string_view name() const noexcept { return self().like->name; }
    [[nodiscard]] std::string_view metadata() const noexcept { return self().like->metadata; }
    [[nodiscard]] std::int64_t flags() const noexcept { return self().flags; }
    [[nodiscard]] std::int64_t length() const noexcept { return self().length; }
    [[nodiscard]] std::int64_t null_count() const noexcept { return self().null_count; }
    [[nodiscard]] static std::int64_t offset() noexcept { return 0; }
    [[nodiscard]] std::size_t buffer_count() const noexcept { return self().buffers; }
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept {
        auto const& b = plan_->buffer(self().first_buffer + static_cast<std::uint32_t>(i));
        return b.bytes < 0 ? column_buffer{} : column_buffer{begin_ == nullptr ? nullptr : begin_ + b.offset, b.bytes};
    }
    [[nodiscard]] std::size_t child_count() const noexcept { return self().children; }
    [[nodiscard]] planned_source child(std::size_t i) const noexcept {
        return {*plan_, self().first_child + static_cast<std::uint32_t>(i), begin_};
    }
    [[nodiscard]] bool has_dictionary() const noexcept { return self().dictionary != nowhere; }
    [[nodiscard]] planned_source dictionary() const noexcept { return {*plan_, self().dictionary, begin_}; }

   private:
    [[nodiscard]] planned_node const& self() const noexcept { return plan_->nodes[node_]; }
    compaction const* plan_;
    std::uint32_t node_;
    std::byte const* begin_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
