// ferry: the engine of column/concat.hpp: copies columns into one allocation, without the bytes that their items do not
// use. Requires exceptions.
#pragma once

#include <ferry/column/concat.hpp>

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/checked.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/load.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/structure.hpp>
#include <ferry/column/detail/value_key.hpp>
#include <ferry/column/view.hpp>

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>  // std::less orders any pointers
#include <limits>
#include <map>
#include <memory>  // shared ownership of the memory
#include <source_location>
#include <span>
#include <string>  // the keys of dictionary values
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>  // as many nodes as the column has

namespace FERRY_NAMESPACE::detail {

/// One call of compact or concat. Walks the tree twice, in the same order: the first walk checks the sources and
/// computes the sizes, the second one writes. No access is out of range even if another process changes the sources
/// during the call.
class compaction {
   public:
    compaction(char const* api, std::source_location where) noexcept : api_{api}, where_{where} {}

    /// Joins chunks of one type in memory that the host can read.
    [[nodiscard]] column run(std::span<column_view const> chunks, allocation_of_space const& space) {
        column_path const path{chunks[0].name()};
        node root{.path = &path, .like = chunks[0]};
        for (auto const& c : chunks) root.pieces.emplace_back(c);
        static_cast<void>(walk(root));
        place_data(root);
        auto const owner = space.allocate(space.space, static_cast<std::size_t>(total_), begin_);
        buffers_.resize(places_.size());
        is_writing_ = true;
        auto const parts = walk(root);
        for (auto const& d : data_)
            if (places_[d.place].is_new) copy(begin_ + places_[d.place].at, d.begin + d.used->begin, d.used->length());
        return build_column(parts, owner, space.on, {api_, where_},
                            {begin_, begin_ != nullptr ? static_cast<std::size_t>(total_) : 0});
    }

   private:
    /// The part of a child or of a buffer that a piece uses, and its position in the copy.
    struct extent {
        std::int64_t begin = 0, end = 0, at = 0;
        [[nodiscard]] std::int64_t length() const noexcept { return end - begin; }
        [[nodiscard]] std::int64_t shift() const noexcept { return at - begin; }
        void include(std::int64_t b, std::int64_t e) noexcept {
            bool const is_first = begin == end;
            begin = is_first ? b : (std::min)(begin, b);
            end = is_first ? e : (std::max)(end, e);
        }
    };
    /// A source: some items of a column.
    struct piece : column_view {
        /// The offset of a source without items is not checked, and not used.
        explicit piece(column_view c) noexcept : column_view{c.node(), c.length() != 0 ? c.offset() : 0, c.length()} {}
        std::int64_t done = 0;        // number of items of the pieces before this one
        extent used{};                // used part of the child, or of the data
        std::vector<extent> parts{};  // used parts of the children of a dense union, or of the data buffers of views
        std::size_t dictionary = 0;   // index in node::dictionaries
    };
    /// One of several dictionaries, and the index of each of its values in the merged one.
    struct merged_dictionary {
        column_view values{};
        std::vector<std::int64_t> indices{};
    };
    struct node {
        column_path const* path = nullptr;
        column_view like{};  // the first chunk, which has the type and the names
        std::vector<piece> pieces{};
        std::vector<node> children{};                   // the children, or the dictionary
        std::vector<merged_dictionary> dictionaries{};  // empty if the dictionaries of all chunks are equal
        std::vector<column_parts> parts{};              // the written children
        std::span<column_buffer const> buffers{};       // the written buffers
        std::int64_t length = 0, null_count = 0;

        [[nodiscard]] std::uintptr_t address(std::size_t buffer) const noexcept {
            return reinterpret_cast<std::uintptr_t>(like.buffers()[buffer].data);
        }
        [[nodiscard]] std::uintptr_t address_of_nulls() const noexcept { return null_count > 0 ? address(0) : 0; }
        /// Returns the validity of written items.
        [[nodiscard]] bitmap_view validity(std::int64_t begin, std::int64_t count) const noexcept {
            return {null_count > 0 ? buffers[0].data : nullptr, begin, count};
        }
    };
    /// A buffer of the copy.
    struct place {
        std::int64_t bytes = -1, at = 0;  // size, or -1 if the buffer is absent, and offset
        bool is_new = false;              // false if there is nothing to write
    };
    /// The source of a buffer with one piece. Buffers with the same source are written once, and shared.
    struct origin {
        buffer_kind kind{};
        std::int64_t width = -1;  // -1 if the source is unknown, so that the buffer is not shared
        std::uintptr_t data = 0, other = 0, nulls = 0;
        std::int64_t begin = 0, end = 0;  // by default, the items of the piece
        friend auto operator<=>(origin const&, origin const&) = default;
    };
    /// The used part of a data buffer of views.
    struct view_data {
        std::byte const* begin;
        extent* used;
        std::size_t place;
    };

    // ---- common to all layouts ----

    [[nodiscard]] column_parts walk(node& n) {
        auto const first = n.like;
        auto const layout = first.layout();
        bool const is_large = layout.buffers[1].bits == 64;
        auto flags = first.flags();
        n.length = 0;
        for (auto& p : n.pieces) {
            p.done = n.length;
            if (!checked_add(n.length, p.length(), n.length))
                refuse(n, message{"its length exceeds 63 bits"}, errc::overflow);
            flags = merged_flags(flags, p.flags());
        }
        n.children.resize(first.node().children.size() + first.has_dictionary());
        n.parts.resize(n.children.size());
        if (first.type().id == type_id::null) n.null_count = n.length;
        if (layout.has_validity()) add_validity(n);
        else if (is_union(first.type().id)) add_type_ids(n);
        switch (layout.buffer_count < 2 ? buffer_kind::validity : layout.buffers[1].kind) {
            case buffer_kind::data:
                if (!first.has_dictionary()) add_items(n);
                else if (!add_indices(n)) flags &= ~abi::arrow_flag::dictionary_ordered;
                break;
            case buffer_kind::offsets:
                add_offsets(n, is_large);
                if (layout.buffer_count == 3) add_text(n, is_large);
                break;
            case buffer_kind::starts:
                if (first.type().id == type_id::dense_union) add_dense_starts(n);
                else is_large ? add_list_views<std::int64_t>(n) : add_list_views<std::int32_t>(n);
                break;
            case buffer_kind::views: add_views(n); break;
            default:
                if (first.type().id == type_id::run_end_encoded) add_run_ends(n);
                else use_items(n);
        }
        add_children(n);
        return {.format = first.format(),
                .name = first.name(),
                .length = n.length,
                .null_count = n.null_count,
                .buffers = n.buffers,
                .children = {n.parts.data(), first.node().children.size()},
                .dictionary = first.has_dictionary() ? n.parts.data() : nullptr,
                .flags = flags,
                .metadata = first.metadata()};
    }
    void add_children(node& n) {
        auto const first = n.like;
        auto const is_run_ends = first.type().id == type_id::run_end_encoded;
        if (first.has_dictionary()) {
            auto const path = n.path->dictionary();
            n.children[0].path = &path;
            n.parts[0] = walk(n.children[0]);
            return;
        }
        for (std::size_t c = is_run_ends; c < n.children.size(); ++c) {
            auto& child = n.children[c];
            column_path const path{*n.path, first.type().id, static_cast<int>(c), first.node().children[c].name};
            child.path = &path;
            child.like = first.node().children[c];
            for (auto const& p : n.pieces) {
                if (is_writing_) break;
                auto const& from = p.node().children[c];
                auto const& used = p.parts.empty() ? p.used : p.parts[c];
                if (used.length() != 0 && used.end > from.length)
                    refuse(child, message{"it has "} << from.length << " items, and its parent needs " << used.end);
                child.pieces.emplace_back(
                    column_view{from, from.offset + (used.length() != 0 ? used.begin : 0), used.length()});
            }
            n.parts[c] = walk(child);
        }
    }

    /// Adds the next buffer of a node. Returns the memory in the second walk if there is something to write, otherwise
    /// null.
    [[nodiscard]] std::byte* add_buffer(node& n, std::int64_t bytes, origin of) {
        if (!is_writing_) {
            place p{bytes, 0, bytes > 0};
            if (p.is_new && of.width >= 0 && n.pieces.size() == 1) {
                if (of.begin == of.end) of.begin = n.pieces[0].offset(), of.end = of.begin + n.length;
                auto const [known, is_new] = known_.try_emplace(of, places_.size());
                if (!is_new) p = places_[known->second], p.is_new = false;
            }
            if (p.is_new) p.at = reserve(n, bytes);
            places_.push_back(p);
            return nullptr;
        }
        auto const& p = places_[next_];
        auto& out = buffers_[next_++];
        if (p.bytes >= 0) out = {begin_ + p.at, p.bytes};
        n.buffers = {n.buffers.empty() ? &out : n.buffers.data(), n.buffers.size() + 1};
        if (!p.is_new) return nullptr;
        clear(begin_ + p.at + p.bytes, rounded_up(p.bytes) - p.bytes);
        return begin_ + p.at;
    }
    [[nodiscard]] static std::int64_t rounded_up(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }
    [[nodiscard]] std::int64_t reserve(node const& n, std::int64_t bytes) {
        auto const at = total_;
        if (bytes > (std::numeric_limits<std::int64_t>::max)() - 64 - at)
            refuse(n, message{"the number of its bytes exceeds 63 bits"}, errc::overflow);
        total_ += rounded_up(bytes);
        return at;
    }
    [[nodiscard]] std::int64_t bytes_of(node const& n, std::int64_t items, std::int64_t width) const {
        std::int64_t bytes = 0;
        if (!checked_multiply(items, width, bytes))
            refuse(n, message{"the number of its bytes exceeds 63 bits"}, errc::overflow);
        return bytes;
    }
    /// Appends a part, and adds its length to `total`, which must not exceed the range of offsets of `width` bytes.
    void append(node const& n, extent& p, std::int64_t& total, std::int64_t width, char const* what) const {
        p.at = total;
        if (!checked_add(total, p.length(), total)) refuse(n, message{"its offsets exceed 63 bits"}, errc::overflow);
        require_at_most(n, total, most_of(width), what);
    }
    void require_at_most(node const& n, std::int64_t value, std::int64_t most, char const* what) const {
        if (value > most)
            refuse(
                n,
                message{"the copy needs "} << value << " " << what << ", expected at most " << most << " for its type",
                errc::overflow);
    }
    [[nodiscard]] static std::int64_t most_of(std::int64_t width) noexcept {
        return (std::numeric_limits<std::int64_t>::max)() >> (64 - 8 * width);
    }
    [[noreturn]] FERRY_COLD void refuse(node const& n, message const& what, errc code = errc::bad_column) const {
        bool const is_malformed = code == errc::bad_column;
        fail(code, api_,
             node_error(*n.path, what,
                        is_malformed ? ": correct the column in its producer"
                                     : ": use a type with wider offsets or indices, or concatenate fewer chunks"),
             where_);
    }

    /// Calls `f(i)` for each null among the written items.
    template <class F>
    static void for_each_null(node const& n, F f) {
        auto const* const bits = reinterpret_cast<std::byte const*>(n.validity(0, 0).data());
        for (std::int64_t i = 0; bits != nullptr && i < n.length; i += 56) {
            auto const count = std::min<std::int64_t>(n.length - i, 56);
            for (auto nulls = load_bits(bits, i, count) ^ low_bits(count); nulls != 0; nulls &= nulls - 1)
                f(i + std::countr_zero(nulls));
        }
    }
    /// Clears the nulls of items of a fixed width. Uses stores, because a memset of variable width would be a function
    /// call for each null.
    static void clear_nulls(node const& n, std::byte* to, std::int64_t width) noexcept {
        auto const clear_all = [&]<class T>(T zero) { for_each_null(n, [&](std::int64_t i) { store(to, i, zero); }); };
        switch (width) {
            case 1: return clear_all(std::uint8_t{});
            case 2: return clear_all(std::uint16_t{});
            case 4: return clear_all(std::uint32_t{});
            case 8: return clear_all(std::uint64_t{});
            default: for_each_null(n, [&](std::int64_t i) { clear(to + i * width, width); });
        }
    }
    [[nodiscard]] static bitmap_view validity(column_view p) noexcept {
        return p.is_without_nulls() ? bitmap_view{nullptr, 0, p.length()} : p.validity();
    }
    [[nodiscard]] static std::byte const* data_of(column_view p, std::size_t buffer) noexcept {
        return static_cast<std::byte const*>(p.buffers()[buffer].data);
    }
    static void copy(std::byte* to, void const* from, std::int64_t bytes) noexcept {
        if (bytes != 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
    static void clear(std::byte* to, std::int64_t bytes) noexcept {
        std::memset(to, 0, static_cast<std::size_t>(bytes));
    }
    template <class T>
    static void store(std::byte* to, std::int64_t i, T value) noexcept {
        std::memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof value);
    }

    /// Adds with wrap-around, because another process may have changed the value.
    template <class T>
    [[nodiscard]] static T shifted(T value, std::int64_t by) noexcept {
        return static_cast<T>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(by));
    }

    // ---- layouts ----

    void add_validity(node& n) {
        if (!is_writing_)
            for (auto const& p : n.pieces) n.null_count += p.length() - count_set(validity(p));
        auto const bytes = n.null_count > 0 ? bitmap_bytes(n.length) : -1;
        auto* const to = add_buffer(n, bytes, {buffer_kind::validity, 0, n.address(0)});
        if (to == nullptr) return;
        for (auto const& p : n.pieces) copy_bits(validity(p), to, p.done);
    }
    void add_items(node& n) {
        auto const bits = item_bits(n.like.type()), width = bits / 8;
        auto const bytes = bits == 1 ? bitmap_bytes(n.length) : bytes_of(n, n.length, width);
        auto* const to = add_buffer(n, bytes, {buffer_kind::data, width, n.address(1), 0, n.address_of_nulls()});
        if (to == nullptr) return;
        for (auto const& p : n.pieces)
            if (bits == 1) copy_bits({data_of(p, 1), p.offset(), p.length()}, to, p.done);
            else copy(to + p.done * width, data_of(p, 1) + p.offset() * width, p.length() * width);
        if (bits != 1) return clear_nulls(n, to, width);
        auto const* const valid = reinterpret_cast<std::byte const*>(n.validity(0, 0).data());
        for (std::int64_t i = 0; valid != nullptr && i < bytes; ++i) to[i] &= valid[i];
    }

    /// Rebases the offsets of lists and text.
    void add_offsets(node& n, bool is_large) {
        auto const width = is_large ? 8 : 4;
        std::int64_t total = 0;
        for (auto& p : n.pieces) {
            if (is_writing_ || p.length() == 0) continue;
            auto const begin = load_offset(data_of(p, 1), p.offset(), is_large),
                       end = load_offset(data_of(p, 1), p.offset() + p.length(), is_large),
                       most = n.children.empty() ? text_bytes(p.node(), is_large) : child_of(p, 0).length();
            if (begin < 0 || end < begin)
                refuse(n, message{"its offsets go from "} << begin << " to " << end
                                                          << ", expected ascending offsets from 0");
            if (most < 0) refuse(n, message{"its last offset is "} << most << ", expected at least 0");
            if (end > most)
                refuse(n, message{"its offsets go from "} << begin << " to " << end << ", expected 0 to " << most);
            p.used = {begin, end};
            append(n, p.used, total, width, "bytes or items");
        }
        auto* const to = add_buffer(n, bytes_of(n, n.length + 1, width), {buffer_kind::offsets, width, n.address(1)});
        if (to == nullptr) return;
        clear(to, width);  // the first offset, if there are no items
        for (auto const& p : n.pieces)
            is_large ? write_offsets<std::int64_t>(n, p, to + 8 * p.done)
                     : write_offsets<std::int32_t>(n, p, to + 4 * p.done);
    }
    template <class T>
    void write_offsets(node const& n, piece const& p, std::byte* to) const {
        if (p.length() == 0) return;
        auto const* const from = data_of(p, 1) + p.offset() * static_cast<std::int64_t>(sizeof(T));
        auto const shift = p.used.shift();
        T before = load<T>(from, 0);
        bool shrinks = before != p.used.begin;
        for (std::int64_t i = 0, count = p.length(); i <= count; ++i) {
            T const value = load<T>(from, i);
            shrinks |= value < before;
            before = value;
            store(to, i, shifted(value, shift));
        }
        if (shrinks || before != p.used.end)
            refuse(n, message{"its offsets decrease between "} << p.used.begin << " and " << p.used.end);
    }
    void add_text(node& n, bool is_large) {
        std::int64_t total = 0;
        for (auto const& p : n.pieces) {
            total += p.used.length();
            if (p.used.length() != 0 && data_of(p, 2) == nullptr)
                refuse(n, message{"data buffer is null, needs "} << p.used.end << " bytes");
        }
        origin of{buffer_kind::bytes, is_large, n.address(2), n.address(1), n.address_of_nulls()};
        if (n.null_count == 0)  // without nulls, the bytes do not depend on the offsets
            of = {buffer_kind::bytes, 0, of.data, 0, 0, n.pieces[0].used.begin, n.pieces[0].used.end};
        auto* const to = add_buffer(n, total, of);
        if (to == nullptr) return;
        for (auto const& p : n.pieces) copy(to + p.used.at, data_of(p, 2) + p.used.begin, p.used.length());
        for_each_null(n, [&, offsets = n.buffers[1].data](std::int64_t i) {
            auto const begin = load_offset(offsets, i, is_large), end = load_offset(offsets, i + 1, is_large);
            if (begin < end && end <= total) clear(to + begin, end - begin);  // offsets may be shared with another node
        });
    }
    template <class T>
    void add_list_views(node& n) {
        constexpr std::int64_t width = sizeof(T);
        std::int64_t total = 0;
        for (auto& p : n.pieces) {
            if (is_writing_) break;
            auto const valid = validity(p);
            auto const items = child_of(p, 0).length();
            extent used;
            for (std::int64_t k = 0; k < p.length(); ++k) {
                if (!valid[k]) continue;
                std::int64_t const start = load<T>(data_of(p, 1), p.offset() + k),
                                   size = load<T>(data_of(p, 2), p.offset() + k);
                if (start < 0 || size < 0 || start > items || size > items - start)
                    refuse(n, message{"item "} << k << " has " << size << " values from " << start
                                               << " on, expected values of its child, which has " << items);
                if (size != 0) used.include(start, start + size);
            }
            append(n, p.used = used, total, width, "items");
        }
        auto const bytes = bytes_of(n, n.length, width);
        origin const of{buffer_kind::starts, width, n.address(1), n.address(2), n.address_of_nulls()};
        auto* const starts = add_buffer(n, bytes, of);
        auto* const sizes = add_buffer(n, bytes, {buffer_kind::sizes, width, of.data, of.other, of.nulls});
        if (starts == nullptr) return;  // if there are no starts to write, there are no sizes either
        for (auto const& p : n.pieces) {
            auto const valid = n.validity(p.done, p.length());
            auto const shift = p.used.shift();
            for (std::int64_t k = 0; k < p.length(); ++k) {
                T const size = valid[k] ? load<T>(data_of(p, 2), p.offset() + k) : T{};
                T const start = size == 0 ? T{} : load<T>(data_of(p, 1), p.offset() + k);
                store(starts, p.done + k, size == 0 ? T{} : shifted(start, shift));
                store(sizes, p.done + k, size);
            }
        }
    }

    void add_views(node& n) {
        auto* const to = add_buffer(n, bytes_of(n, n.length, 16), {});
        std::vector<std::int64_t> lengths;
        for (auto& p : n.pieces) {
            if (!is_writing_) check_views(n, p);
            for (std::size_t k = 0; k < p.parts.size(); ++k) {
                auto& used = p.parts[k];
                used.at = static_cast<std::int64_t>(lengths.size());  // index of the data buffer in the copy
                if (used.length() == 0) continue;
                if (!is_writing_) data_.push_back({data_of(p, 2 + k), &used, places_.size()});
                static_cast<void>(add_buffer(n, 0, {}));
                lengths.push_back(used.length());
            }
        }
        auto const bytes = 8 * static_cast<std::int64_t>(lengths.size());
        if (auto* const last = add_buffer(n, bytes, {}); last != nullptr) copy(last, lengths.data(), bytes);
        if (to == nullptr) return;
        for (auto const& p : n.pieces) {
            auto const valid = n.validity(p.done, p.length());
            for (std::int64_t k = 0; k < p.length(); ++k) {
                auto view = valid[k] ? load<view_item>(data_of(p, 1), p.offset() + k) : view_item{};
                auto const buffer = static_cast<std::size_t>(view.buffer);
                bool const is_inline = view.size <= view_item::most_inline;
                if (view.size < 0 || (!is_inline && buffer >= p.parts.size()))
                    refuse(n, message{"view "} << k << " changed while it was read");
                if (is_inline) {
                    clear(reinterpret_cast<std::byte*>(&view) + 4 + view.size, view_item::most_inline - view.size);
                } else {
                    view.buffer = static_cast<std::int32_t>(p.parts[buffer].at);
                    view.offset = shifted(view.offset, -p.parts[buffer].begin);
                }
                store(to, p.done + k, view);
            }
        }
    }
    void check_views(node const& n, piece& p) const {
        p.parts.resize(p.buffers().size() - 3);
        auto const valid = validity(p);
        for (std::int64_t k = 0; k < p.length(); ++k) {
            if (!valid[k]) continue;
            auto const view = load<view_item>(data_of(p, 1), p.offset() + k);
            auto const buffer = static_cast<std::size_t>(view.buffer);
            bool const is_inline = view.size <= view_item::most_inline;
            if (view.size < 0 || (!is_inline && (buffer >= p.parts.size() || view.offset < 0)))
                refuse(n, message{"view "} << k << " has " << view.size << " bytes at " << view.offset << " of buffer "
                                           << view.buffer << ", but the number of buffers is "
                                           << std::uint64_t{p.parts.size()});
            if (!is_inline) p.parts[buffer].include(view.offset, std::int64_t{view.offset} + view.size);
        }
        for (std::size_t k = 0; k < p.parts.size(); ++k) {
            if (p.parts[k].length() == 0) continue;
            auto const& data = p.buffers()[2 + k];
            auto const bytes = data.bytes >= 0
                                   ? data.bytes
                                   : load<std::int64_t>(p.buffers().back().data, static_cast<std::int64_t>(k));
            if (p.parts[k].end > bytes || data.data == nullptr)
                refuse(n, message{"views reach to byte "} << p.parts[k].end << " of data buffer " << std::uint64_t{k}
                                                          << ", which has " << bytes << " bytes");
        }
    }
    /// Reserves memory for the data of views. If several nodes or pieces use overlapping parts of a buffer, the union
    /// of these parts is copied once.
    void place_data(node const& root) {
        std::ranges::sort(data_, [](view_data const& a, view_data const& b) {
            return a.begin != b.begin ? std::less<>{}(a.begin, b.begin) : a.used->begin < b.used->begin;
        });
        for (auto first = data_.begin(); first != data_.end();) {
            auto all = *first->used;
            auto end = first + 1;
            for (; end != data_.end() && end->begin == first->begin && end->used->begin < all.end; ++end)
                all.include(end->used->begin, end->used->end);
            place shared{all.length(), reserve(root, all.length()), true};
            for (; first != end; ++first, shared.is_new = false) {
                first->used->begin = all.begin;
                first->used->end = all.end;
                places_[first->place] = shared;
            }
        }
    }

    /// Sets the used part of the children of a struct, sparse union or fixed-size list, from the items of each piece.
    static void use_items(node& n) {
        std::int64_t const each = n.like.type().id == type_id::fixed_size_list ? n.like.type().width : 1;
        for (auto& p : n.pieces)
            if (p.length() != 0) p.used = {p.offset() * each, (p.offset() + p.length()) * each};
    }
    void add_type_ids(node& n) {
        auto* const to = add_buffer(n, n.length, {buffer_kind::type_ids, 1, n.address(0)});
        if (to == nullptr) return;
        for (auto const& p : n.pieces) copy(to + p.done, data_of(p, 0) + p.offset(), p.length());
    }
    void add_dense_starts(node& n) {
        auto const child_of_id = union_children{n.like.type()}.child;
        std::vector<std::int64_t> totals(n.children.size());
        for (auto& p : n.pieces) {
            if (is_writing_) break;
            p.parts.resize(n.children.size());
            for (std::int64_t k = 0; k < p.length(); ++k) {
                auto const id = load<std::uint8_t>(data_of(p, 0), p.offset() + k);
                auto const start = load<std::int32_t>(data_of(p, 1), p.offset() + k);
                if (id > 127 || child_of_id[id] < 0)
                    refuse(n, message{"item "} << k << " has type id " << unsigned{id}
                                               << ", which its format does not name");
                int const child = child_of_id[id];
                if (auto const items = child_of(p, child).length(); start < 0 || start >= items)
                    refuse(n, message{"item "} << k << " is item " << start << " of child " << child << ", which has "
                                               << items << " items");
                p.parts[static_cast<std::size_t>(child)].include(start, start + 1);
            }
            for (std::size_t c = 0; c < totals.size(); ++c) append(n, p.parts[c], totals[c], 4, "items of one child");
        }
        auto* const to = add_buffer(n, bytes_of(n, n.length, 4), {buffer_kind::starts, 1, n.address(1), n.address(0)});
        if (to == nullptr) return;
        for (auto const& p : n.pieces) {
            std::int64_t shifts[128]{};
            for (std::size_t id = 0; id < 128; ++id)
                if (child_of_id[id] >= 0) shifts[id] = p.parts[static_cast<std::size_t>(child_of_id[id])].shift();
            for (std::int64_t k = 0; k < p.length(); ++k)
                store(to, p.done + k,
                      shifted(load<std::int32_t>(data_of(p, 1), p.offset() + k),
                              shifts[load<std::uint8_t>(data_of(p, 0), p.offset() + k) & 127]));
        }
    }
    void add_run_ends(node& n) {
        auto const like = child_of(n.like, 0);
        with_integer(like.type().id, [&]<class T>(T) {
            auto const load_end = [](column_view ends, std::int64_t i) {
                return static_cast<std::int64_t>(load<T>(data_of(ends, 1), ends.offset() + i));
            };
            std::int64_t runs = 0;
            for (auto& p : n.pieces) {
                if (p.length() == 0) continue;
                auto const ends = child_of(p, 0);
                if (!is_writing_)
                    p.used = {find_run(ends, p.offset()), find_run(ends, p.offset() + p.length() - 1) + 1};
                if (p.used.end > ends.length() || p.used.length() <= 0)
                    refuse(n, message{"its runs end before item "} << p.offset() + p.length());
                require_at_most(n, p.done + p.length(), most_of(sizeof(T)), "items");
                append(n, p.used, runs, sizeof(T), "runs");
            }
            auto& out = n.children[0];
            out.path = n.path;
            static_cast<void>(add_buffer(out, -1, {}));
            auto* const to = add_buffer(out, bytes_of(n, runs, sizeof(T)), {});
            n.parts[0] = {.format = like.format(),
                          .name = like.name(),
                          .length = runs,
                          .null_count = 0,
                          .buffers = out.buffers,
                          .flags = like.flags(),
                          .metadata = like.metadata()};
            if (to == nullptr) return;
            for (auto const& p : n.pieces)
                for (auto k = p.used.begin, before = p.offset(); k < p.used.end; ++k) {
                    auto const end = load_end(child_of(p, 0), k);
                    if (end <= before)
                        refuse(n, message{"its run ends do not increase: "} << end << " follows " << before);
                    before = end;
                    store(to, k + p.used.shift(), static_cast<T>((std::min)(end - p.offset(), p.length()) + p.done));
                }
        });
    }

    /// Copies the indices, converted to indices into the merged dictionary.
    /// \return  whether every dictionary is the beginning of the merged one
    [[nodiscard]] bool add_indices(node& n) {
        if (!is_writing_) merge_dictionaries(n);
        if (n.dictionaries.empty()) return add_items(n), true;
        with_integer(n.like.type().id, [&]<class T>(T) {
            auto* const to = add_buffer(n, bytes_of(n, n.length, sizeof(T)), {});
            if (to == nullptr) return;
            for (auto const& p : n.pieces) {
                auto const valid = n.validity(p.done, p.length());
                auto const& indices = n.dictionaries[p.dictionary].indices;
                for (std::int64_t k = 0; k < p.length(); ++k) {
                    auto const index = valid[k] ? load<T>(data_of(p, 1), p.offset() + k) : T{};
                    // Negative indices become large numbers.
                    if (valid[k] && static_cast<std::uint64_t>(index) >= indices.size())
                        refuse(n, message{"index "} << static_cast<std::int64_t>(index)
                                                    << " is outside of its dictionary of "
                                                    << std::uint64_t{indices.size()} << " items");
                    store(to, p.done + k, valid[k] ? static_cast<T>(indices[static_cast<std::size_t>(index)]) : T{});
                }
            }
        });
        return std::ranges::all_of(n.dictionaries, [](merged_dictionary const& d) {
            for (std::size_t i = 0; i < d.indices.size(); ++i)
                if (d.indices[i] != static_cast<std::int64_t>(i)) return false;
            return true;
        });
    }
    /// Selects the pieces of the merged dictionary. If all dictionaries are equal, this is the first one; otherwise it
    /// consists of the values of each dictionary that the earlier ones do not contain. Each dictionary is read once.
    void merge_dictionaries(node& n) const {
        auto& pieces = n.children[0].pieces;
        n.children[0].like = dictionary_of(n.like);
        std::string key;
        std::unordered_map<std::string, std::size_t> sources;
        for (auto& p : n.pieces) {
            key.clear();
            append_identity(key, dictionary_of(p).node());
            auto const [known, is_new] = sources.try_emplace(key, n.dictionaries.size());
            if (is_new) n.dictionaries.push_back({dictionary_of(p)});
            p.dictionary = known->second;
        }
        std::unordered_map<std::string, std::int64_t> values;
        auto const path = n.path->dictionary();
        for (std::size_t k = 0; n.dictionaries.size() > 1 && k < n.dictionaries.size(); ++k) {
            auto& [d, indices] = n.dictionaries[k];
            std::int64_t begin = 0;  // first of the new values that have not been added
            auto const add_new = [&](std::int64_t end) {
                if (end > begin) pieces.emplace_back(column_view{d.node(), d.offset() + begin, end - begin});
                begin = end + 1;
            };
            if (d.length() > (std::numeric_limits<std::int32_t>::max)())  // a column of type null can have any length
                refuse(n, message{"a dictionary of "} << d.length() << " items is too long to be merged with others",
                       errc::overflow);
            indices.reserve(static_cast<std::size_t>(d.length()));
            for (std::int64_t i = 0; i < d.length(); ++i) {
                key.clear();
                append_key(key, d, i, {api_, where_, &path});
                auto const [known, is_new] = values.try_emplace(key, static_cast<std::int64_t>(values.size()));
                if (!is_new) add_new(i);
                indices.push_back(known->second);
            }
            add_new(d.length());
        }
        auto const& first = n.dictionaries[0];
        if (std::ranges::all_of(n.dictionaries, [&](auto const& d) { return d.indices == first.indices; })) {
            pieces.assign(1, piece{first.values});
            n.dictionaries.clear();
            return;
        }
        require_indices(n, values.size());
    }
    /// Fails unless the type of the indices can represent the indices of all values.
    void require_indices(node const& n, std::size_t values) const {
        constexpr char const* names[] = {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"};
        auto const fits = [&](std::size_t type) {  // numbered from int8 on
            auto const bits = (std::size_t{8} << type / 2) - (type % 2 == 0);
            return bits > 62 || values <= std::size_t{1} << bits;
        };
        auto const type = static_cast<std::size_t>(n.like.type().id) - static_cast<std::size_t>(type_id::int8);
        auto wider = type;
        while (!fits(wider)) wider += 2;
        if (wider != type)
            fail(errc::overflow, api_,
                 node_error(*n.path,
                            message{"its dictionaries have "} << std::uint64_t{values}
                                                              << " distinct values, too many for " << names[type]
                                                              << " indices",
                            message{": use "} << names[wider] << " indices"),
                 where_);
    }

    char const* api_;
    std::source_location where_;
    bool is_writing_ = false;
    std::byte* begin_ = nullptr;
    std::int64_t total_ = 0;
    std::size_t next_ = 0;
    std::vector<place> places_{};  // all buffers, in the order of the walks
    std::vector<column_buffer> buffers_{};
    std::vector<view_data> data_{};
    std::map<origin, std::size_t> known_{};
};

FERRY_INLINE column concat(std::span<column_view const> chunks, allocation_of_space const& space, char const* api,
                           std::source_location where) {
    if (!is_host_accessible(space.on))
        fail(errc::device, api,
             message{"the space has memory on "} << name(space.on.type) << ", which the host cannot write: use to()",
             where);
    for (auto const& c : chunks) c.require_host(api, where);
    for (std::size_t i = 1; i < chunks.size(); ++i)
        static_cast<void>(check_same_type(chunks[0], chunks[i], column_path{chunks[0].name()}, i, {api, where}));
    return compaction{api, where}.run(chunks, space);
}

}  // namespace FERRY_NAMESPACE::detail
