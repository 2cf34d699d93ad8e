// ferry: copies columns into one allocation, without the bytes that their items do not use. Requires exceptions.
// length: one function for each of Arrow's layouts.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/checked.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/copy_bits.hpp>
#include <ferry/column/detail/count_bits.hpp>
#include <ferry/column/detail/load.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/same_type.hpp>
#include <ferry/column/parts.hpp>
#include <ferry/column/view.hpp>
#include <ferry/space/buffer.hpp>

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
#include <type_traits>
#include <utility>
#include <vector>  // as many nodes as the column has

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Whether two trees are equal except for names and metadata. `same(a, b)` compares buffers.
template <class Same>
[[nodiscard]] bool is_same_tree(column_node const& a, column_node const& b, Same same) {
    auto const is_same = [&](column_node const& x, column_node const& y) { return is_same_tree(x, y, same); };
    return a.format == b.format && a.length == b.length && a.offset == b.offset &&
           std::ranges::equal(a.buffers, b.buffers, same) && std::ranges::equal(a.children, b.children, is_same) &&
           (a.dictionary == nullptr) == (b.dictionary == nullptr) &&
           (a.dictionary == nullptr || is_same(*a.dictionary, *b.dictionary));
}
/// Whether two compact columns have the same values.
[[nodiscard]] inline bool has_same_values(column_view a, column_view b) {
    return is_same_tree(a.node(), b.node(), [](column_buffer const& x, column_buffer const& y) {
        return x.bytes == y.bytes &&
               (x.bytes <= 0 || std::memcmp(x.data, y.data, static_cast<std::size_t>(x.bytes)) == 0);
    });
}

/// One copy. The tree is walked twice, in the same order: the first walk checks the sources and computes the sizes, the
/// second one writes. Another process may write to the sources meanwhile: no access is out of range, whatever the
/// second walk reads.
class compaction {
   public:
    compaction(char const* api, std::source_location where) noexcept : api_{api}, where_{where} {}

    /// Joins chunks of one type in memory that the host can read.
    template <memory_space Space>
    [[nodiscard]] column run(std::span<column_view const> chunks, Space space) {
        column_path const path{chunks[0].name()};
        node root{.path = &path, .pieces{chunks.begin(), chunks.end()}};
        static_cast<void>(walk(root));
        place_data(root);
        auto const owner = std::make_shared<buffer<Space>>(static_cast<std::size_t>(total_), std::move(space));
        begin_ = static_cast<std::byte*>(owner->data());
        buffers_.resize(places_.size());
        is_writing_ = true;
        auto const parts = walk(root);
        for (auto const& d : data_)
            if (places_[d.place].is_new) copy(begin_ + places_[d.place].at, d.begin + d.used->begin, d.used->length());
        return build_column(parts, owner, owner->device(), {api_, where_},
                            {begin_, begin_ != nullptr ? static_cast<std::size_t>(total_) : 0});
    }

   private:
    /// The part of a child or of a buffer that a piece uses, and where it goes.
    struct part {
        std::int64_t begin = 0, end = 0, at = 0;
        [[nodiscard]] std::int64_t length() const noexcept { return end - begin; }
        [[nodiscard]] std::int64_t shift() const noexcept { return at - begin; }
        void include(std::int64_t b, std::int64_t e) noexcept {
            bool const is_first = begin == end;
            begin = is_first ? b : (std::min)(begin, b);
            end = is_first ? e : (std::max)(end, e);
        }
    };
    struct node {
        column_path const* path = nullptr;
        std::vector<column_view> pieces{};         // items of the sources, in order
        std::vector<part> used{};                  // for each piece; several for views and dense unions
        std::vector<node> children{};              // or the dictionary
        std::vector<column_parts> parts{};         // of the children
        std::span<column_buffer const> buffers{};  // written
        std::int64_t length = 0, null_count = 0;

        [[nodiscard]] std::uintptr_t address(std::size_t buffer) const noexcept {
            return reinterpret_cast<std::uintptr_t>(pieces[0].buffers()[buffer].data);
        }
        [[nodiscard]] std::uintptr_t address_of_nulls() const noexcept { return null_count > 0 ? address(0) : 0; }
        /// Of written items.
        [[nodiscard]] bitmap_view validity(std::int64_t begin, std::int64_t count) const noexcept {
            return {null_count > 0 ? buffers[0].data : nullptr, begin, count};
        }
    };
    /// A buffer of the copy.
    struct place {
        std::int64_t bytes = -1, at = 0;  // -1: absent
        bool is_new = false;              // false: nothing to write
    };
    /// What a buffer with one piece is made of. If it is the same, the buffer is shared.
    struct origin {
        buffer_kind kind{};
        std::int64_t width = -1;  // -1: unknown
        std::uintptr_t data = 0, other = 0, nulls = 0;
        std::int64_t begin = 0, end = 0;  // by default the items of the piece
        friend auto operator<=>(origin const&, origin const&) = default;
    };
    /// Data of views.
    struct view_data {
        std::byte const* begin;
        part* used;
        std::size_t place;
    };

    // ---- what the layouts share ----

    [[nodiscard]] column_parts walk(node& n) {
        auto const first = n.pieces[0];
        auto const layout = first.layout();
        bool const is_large = layout.buffers[1].bits == 64;
        auto flags = first.flags();
        n.length = 0;
        for (auto const& p : n.pieces) {
            if (!checked_add(n.length, p.length(), n.length))
                refuse(n, message{"its length overflows"}, errc::overflow);
            flags = merged_flags(flags, p.flags());
        }
        n.children.resize(first.node().children.size() + first.has_dictionary());
        n.parts.resize(n.children.size());
        if (!is_writing_) n.used.resize(n.pieces.size());
        if (first.type().id == type_id::null) n.null_count = n.length;
        if (layout.has_validity()) add_validity(n);
        else if (is_union(first.type().id)) add_type_ids(n);
        switch (layout.buffer_count < 2 ? buffer_kind::validity : layout.buffers[1].kind) {
            case buffer_kind::data:
                if (!first.has_dictionary()) add_items(n);
                else if (add_indices(n)) flags &= ~abi::arrow_flag::dictionary_ordered;
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
        auto const first = n.pieces[0];
        auto const is_run_ends = first.type().id == type_id::run_end_encoded;
        if (first.has_dictionary()) {
            auto const path = n.path->dictionary();
            n.children[0].path = &path;
            n.parts[0] = walk(n.children[0]);
            return;
        }
        auto const parts = n.used.size() / n.pieces.size();  // of each piece
        for (std::size_t c = is_run_ends; c < n.children.size(); ++c) {
            auto& child = n.children[c];
            column_path const path{*n.path, first.type().id, static_cast<int>(c), first.node().children[c].name};
            child.path = &path;
            for (std::size_t i = 0; !is_writing_ && i < n.pieces.size(); ++i) {
                auto const& from = n.pieces[i].node().children[c];
                auto const& used = n.used[parts == 1 ? i : i * parts + c];
                if (used.length() != 0 && used.end > from.length)
                    refuse(child, message{"it has "} << from.length << " items, and its parent needs " << used.end);
                child.pieces.emplace_back(from, from.offset + (used.length() != 0 ? used.begin : 0), used.length());
            }
            n.parts[c] = walk(child);
        }
    }

    /// The next buffer of a node. Returns null in the first walk. In the second one returns the memory, or null if
    /// there is nothing to write.
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
            refuse(n, message{"its bytes overflow"}, errc::overflow);
        total_ += rounded_up(bytes);
        return at;
    }
    [[nodiscard]] std::int64_t bytes_of(node const& n, std::int64_t items, std::int64_t width) const {
        std::int64_t bytes = 0;
        if (!checked_multiply(items, width, bytes)) refuse(n, message{"its bytes overflow"}, errc::overflow);
        return bytes;
    }
    /// Appends a part to the total, which offsets of `width` bytes count.
    void append(node const& n, part& p, std::int64_t& total, std::int64_t width, char const* what) const {
        p.at = total;
        if (!checked_add(total, p.length(), total)) refuse(n, message{"its offsets overflow"}, errc::overflow);
        require_at_most(n, total, most_of(width), what);
    }
    void require_at_most(node const& n, std::int64_t value, std::int64_t most, char const* what) const {
        if (value > most)
            refuse(n,
                   message{"together it has "} << value << " " << what << ", and its type counts to " << most
                                               << ": use one with wider offsets",
                   errc::overflow);
    }
    [[nodiscard]] static std::int64_t most_of(std::int64_t width) noexcept {
        return (std::numeric_limits<std::int64_t>::max)() >> (64 - 8 * width);
    }
    [[noreturn]] FERRY_COLD void refuse(node const& n, message const& what, errc code = errc::bad_column) const {
        fail(code, api_, message{} << *n.path << ": " << what.c_str(), where_);
    }

    /// Calls `f(piece, its parts, number of items before it)` for each piece that has items.
    template <class F>
    static void for_each_piece(node& n, F f) {
        std::int64_t done = 0;
        auto const parts = n.used.size() / n.pieces.size();
        for (std::size_t i = 0; i < n.pieces.size(); done += n.pieces[i].length(), ++i)
            if (n.pieces[i].length() != 0) f(n.pieces[i], n.used.data() + i * parts, done);
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

    /// Wraps around: another process may have changed the value.
    template <class T>
    [[nodiscard]] static T shifted(T value, std::int64_t by) noexcept {
        return static_cast<T>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(by));
    }

    // ---- layouts ----

    void add_validity(node& n) {
        if (!is_writing_)
            for (auto const& p : n.pieces) n.null_count += p.length() - count_set(validity(p));
        auto* const to =
            add_buffer(n, n.null_count > 0 ? bitmap_bytes(n.length) : -1, {buffer_kind::validity, 0, n.address(0)});
        if (to == nullptr) return;
        for_each_piece(n, [&](column_view p, part*, std::int64_t done) { copy_bits(validity(p), to, done); });
    }
    void add_items(node& n) {
        auto const bits = item_bits(n.pieces[0].type()), width = bits / 8;
        auto const bytes = bits == 1 ? bitmap_bytes(n.length) : bytes_of(n, n.length, width);
        auto* const to = add_buffer(n, bytes, {buffer_kind::data, width, n.address(1), 0, n.address_of_nulls()});
        if (to == nullptr) return;
        for_each_piece(n, [&](column_view p, part*, std::int64_t done) {
            if (bits == 1) copy_bits({data_of(p, 1), p.offset(), p.length()}, to, done);
            else copy(to + done * width, data_of(p, 1) + p.offset() * width, p.length() * width);
        });
        if (bits != 1) return for_each_null(n, [&](std::int64_t i) { clear(to + i * width, width); });
        auto const* const valid = reinterpret_cast<std::byte const*>(n.validity(0, 0).data());
        for (std::int64_t i = 0; valid != nullptr && i < bytes; ++i) to[i] &= valid[i];
    }

    /// Rebases the offsets of lists and text.
    void add_offsets(node& n, bool is_large) {
        auto const width = is_large ? 8 : 4;
        std::int64_t total = 0;
        if (!is_writing_)
            for_each_piece(n, [&](column_view p, part* used, std::int64_t) {
                used->begin = load_offset(data_of(p, 1), p.offset(), is_large);
                used->end = load_offset(data_of(p, 1), p.offset() + p.length(), is_large);
                auto const most = n.children.empty() ? text_bytes(p.node(), is_large) : child_of(p, 0).length();
                if (used->begin < 0 || used->end < used->begin || used->end > most)
                    refuse(n, message{"its offsets go from "} << used->begin << " to " << used->end
                                                              << ", and there are " << most);
                append(n, *used, total, width, "bytes or items");
            });
        auto* const to = add_buffer(n, bytes_of(n, n.length + 1, width), {buffer_kind::offsets, width, n.address(1)});
        if (to == nullptr) return;
        clear(to, width);  // of no items
        for_each_piece(n, [&](column_view p, part const* used, std::int64_t done) {
            is_large ? write_offsets<std::int64_t>(n, p, *used, to + 8 * done)
                     : write_offsets<std::int32_t>(n, p, *used, to + 4 * done);
        });
    }
    template <class T>
    void write_offsets(node const& n, column_view p, part used, std::byte* to) const {
        auto const* const from = data_of(p, 1) + p.offset() * static_cast<std::int64_t>(sizeof(T));
        T before = load<T>(from, 0);
        bool shrinks = before != used.begin;
        for (std::int64_t i = 0, count = p.length(); i <= count; ++i) {
            T const value = load<T>(from, i);
            shrinks |= value < before;
            before = value;
            store(to, i, shifted(value, used.shift()));
        }
        if (shrinks || before != used.end)
            refuse(n, message{"its offsets do not grow from "} << used.begin << " to " << used.end);
    }
    void add_text(node& n, bool is_large) {
        std::int64_t total = 0;
        for_each_piece(n, [&](column_view p, part const* used, std::int64_t) {
            total += used->length();
            if (used->length() != 0 && data_of(p, 2) == nullptr)
                refuse(n, message{"data buffer is null, needs "} << used->end << " bytes");
        });
        origin const with_nulls{buffer_kind::bytes, is_large, n.address(2), n.address(1), n.address_of_nulls()},
            // The same bytes, wherever each item begins.
            without{buffer_kind::bytes, 0, n.address(2), 0, 0, n.used[0].begin, n.used[0].end};
        auto* const to = add_buffer(n, total, n.null_count > 0 ? with_nulls : without);
        if (to == nullptr) return;
        for_each_piece(n, [&](column_view p, part const* used, std::int64_t) {
            copy(to + used->at, data_of(p, 2) + used->begin, used->length());
        });
        for_each_null(n, [&, offsets = n.buffers[1].data](std::int64_t i) {
            auto const begin = load_offset(offsets, i, is_large), end = load_offset(offsets, i + 1, is_large);
            if (begin < end && end <= total) clear(to + begin, end - begin);  // of a node that shares the offsets
        });
    }
    template <class T>
    void add_list_views(node& n) {
        constexpr std::int64_t width = sizeof(T);
        std::int64_t total = 0;
        if (!is_writing_)
            for_each_piece(n, [&](column_view p, part* used, std::int64_t) {
                auto const valid = validity(p);
                auto const items = child_of(p, 0).length();
                for (std::int64_t k = 0; k < p.length(); ++k) {
                    if (!valid[k]) continue;
                    std::int64_t const start = load<T>(data_of(p, 1), p.offset() + k),
                                       size = load<T>(data_of(p, 2), p.offset() + k);
                    if (start < 0 || size < 0 || start > items || size > items - start)
                        refuse(n, message{"item "} << k << " has " << size << " values from " << start
                                                   << " on, and there are " << items);
                    if (size != 0) used->include(start, start + size);
                }
                append(n, *used, total, width, "items");
            });
        auto const bytes = bytes_of(n, n.length, width);
        origin const of{buffer_kind::starts, width, n.address(1), n.address(2), n.address_of_nulls()};
        auto* const starts = add_buffer(n, bytes, of);
        auto* const sizes = add_buffer(n, bytes, {buffer_kind::sizes, width, of.other, of.data, of.nulls});
        if (starts == nullptr) return;  // then the sizes are shared as well
        for_each_piece(n, [&](column_view p, part const* used, std::int64_t done) {
            auto const valid = n.validity(done, p.length());
            for (std::int64_t k = 0; k < p.length(); ++k) {
                T const size = valid[k] ? load<T>(data_of(p, 2), p.offset() + k) : T{};
                T const start = size == 0 ? T{} : load<T>(data_of(p, 1), p.offset() + k);
                store(starts, done + k, size == 0 ? T{} : shifted(start, used->shift()));
                store(sizes, done + k, size);
            }
        });
    }

    void add_views(node& n) {
        auto* const to = add_buffer(n, bytes_of(n, n.length, 16), {});
        auto const data_count = [](column_view p) { return p.buffers().size() - 3; };
        if (!is_writing_) {
            n.used.clear();
            for (auto const& p : n.pieces) {
                n.used.resize(n.used.size() + data_count(p));
                check_views(n, p, std::span{n.used}.last(data_count(p)));
            }
        }
        std::vector<std::int64_t> lengths;
        std::size_t i = 0;
        for (auto const& p : n.pieces)
            for (std::size_t k = 2; k < 2 + data_count(p); ++k, ++i) {
                auto& used = n.used[i];
                used.at = static_cast<std::int64_t>(lengths.size());  // the number of the buffer in the copy
                if (used.length() == 0) continue;
                if (!is_writing_) data_.push_back({data_of(p, k), &used, places_.size()});
                static_cast<void>(add_buffer(n, 0, {}));
                lengths.push_back(used.length());
            }
        auto const bytes = 8 * static_cast<std::int64_t>(lengths.size());
        if (auto* const last = add_buffer(n, bytes, {}); last != nullptr) copy(last, lengths.data(), bytes);
        if (to == nullptr) return;
        std::int64_t done = 0;
        auto const* used = n.used.data();
        for (auto const& p : n.pieces) {
            auto const valid = n.validity(done, p.length());
            for (std::int64_t k = 0; k < p.length(); ++k, ++done) {
                auto view = valid[k] ? load<view_item>(data_of(p, 1), p.offset() + k) : view_item{};
                auto const buffer = static_cast<std::size_t>(view.buffer);
                bool const is_inline = view.size <= view_item::most_inline;
                if (view.size < 0 || (!is_inline && buffer >= data_count(p)))
                    refuse(n, message{"view "} << k << " changed while it was read");
                if (is_inline) {
                    clear(reinterpret_cast<std::byte*>(&view) + 4 + view.size, view_item::most_inline - view.size);
                } else {
                    view.buffer = static_cast<std::int32_t>(used[buffer].at);
                    view.offset = shifted(view.offset, -used[buffer].begin);
                }
                store(to, done, view);
            }
            used += data_count(p);
        }
    }
    void check_views(node const& n, column_view p, std::span<part> used) const {
        auto const valid = validity(p);
        for (std::int64_t k = 0; k < p.length(); ++k) {
            if (!valid[k]) continue;
            auto const view = load<view_item>(data_of(p, 1), p.offset() + k);
            auto const buffer = static_cast<std::size_t>(view.buffer);
            bool const is_inline = view.size <= view_item::most_inline;
            if (view.size < 0 || (!is_inline && (buffer >= used.size() || view.offset < 0)))
                refuse(n, message{"view "} << k << " has " << view.size << " bytes at " << view.offset << " of buffer "
                                           << view.buffer << ", and there are " << std::uint64_t{used.size()});
            if (!is_inline) used[buffer].include(view.offset, std::int64_t{view.offset} + view.size);
        }
        for (std::size_t k = 0; k < used.size(); ++k) {
            if (used[k].length() == 0) continue;
            auto const& data = p.buffers()[2 + k];
            auto const bytes = data.bytes >= 0
                                   ? data.bytes
                                   : load<std::int64_t>(p.buffers().back().data, static_cast<std::int64_t>(k));
            if (used[k].end > bytes || data.data == nullptr)
                refuse(n, message{"views reach to byte "} << used[k].end << " of data buffer " << std::uint64_t{k}
                                                          << ", which holds " << bytes);
        }
    }
    /// Gives the data of views its places: what several nodes or pieces use together is copied once.
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

    /// Structs, unions and fixed-size lists: the items apply to the children.
    static void use_items(node& n) {
        auto const& type = n.pieces[0].type();
        std::int64_t const each = type.id == type_id::fixed_size_list ? type.width : 1;
        for_each_piece(n, [&](column_view p, part* used, std::int64_t) {
            *used = {p.offset() * each, (p.offset() + p.length()) * each};
        });
    }
    void add_type_ids(node& n) {
        auto* const to = add_buffer(n, n.length, {buffer_kind::type_ids, 1, n.address(0)});
        if (to == nullptr) return;
        for_each_piece(n, [&](column_view p, part*, std::int64_t done) {
            copy(to + done, data_of(p, 0) + p.offset(), p.length());
        });
    }
    void add_dense_starts(node& n) {
        auto const children = n.children.size();
        auto const child_of_id = union_children{n.pieces[0].type()}.child;
        std::vector<std::int64_t> totals(children);
        n.used.resize(n.pieces.size() * children);
        if (!is_writing_)
            for_each_piece(n, [&](column_view p, part* used, std::int64_t) {
                for (std::int64_t k = 0; k < p.length(); ++k) {
                    auto const id = load<std::uint8_t>(data_of(p, 0), p.offset() + k);
                    auto const start = load<std::int32_t>(data_of(p, 1), p.offset() + k);
                    if (id > 127 || child_of_id[id] < 0)
                        refuse(n, message{"item "} << k << " has type id " << unsigned{id}
                                                   << ", which its format does not name");
                    int const child = child_of_id[id];
                    if (auto const items = child_of(p, child).length(); start < 0 || start >= items)
                        refuse(n, message{"item "} << k << " is item " << start << " of child " << child
                                                   << ", which has " << items);
                    used[child].include(start, start + 1);
                }
                for (std::size_t c = 0; c < children; ++c) append(n, used[c], totals[c], 4, "items of one child");
            });
        auto* const to = add_buffer(n, bytes_of(n, n.length, 4), {buffer_kind::starts, 1, n.address(1), n.address(0)});
        if (to == nullptr) return;
        for_each_piece(n, [&](column_view p, part const* used, std::int64_t done) {
            std::int64_t shifts[128]{};
            for (std::size_t id = 0; id < 128; ++id)
                if (child_of_id[id] >= 0) shifts[id] = used[child_of_id[id]].shift();
            for (std::int64_t k = 0; k < p.length(); ++k)
                store(to, done + k,
                      shifted(load<std::int32_t>(data_of(p, 1), p.offset() + k),
                              shifts[load<std::uint8_t>(data_of(p, 0), p.offset() + k) & 127]));
        });
    }
    void add_run_ends(node& n) {
        with_integer(child_of(n.pieces[0], 0).type().id, [&]<class T>(T) {
            auto const load_end = [](column_view ends, std::int64_t i) {
                return static_cast<std::int64_t>(load<T>(ends.buffers()[1].data, ends.offset() + i));
            };
            std::int64_t runs = 0;
            if (!is_writing_)
                for_each_piece(n, [&](column_view p, part* used, std::int64_t done) {
                    auto const ends = child_of(p, 0);
                    auto const first_after = [&](std::int64_t item) {  // whatever the ends are
                        std::int64_t low = 0, high = ends.length();
                        while (low < high) {
                            auto const middle = low + (high - low) / 2;
                            if (load_end(ends, middle) > item) high = middle;
                            else low = middle + 1;
                        }
                        return low;
                    };
                    *used = {first_after(p.offset()), first_after(p.offset() + p.length() - 1) + 1};
                    if (used->end > ends.length() || used->length() <= 0)
                        refuse(n, message{"its runs end before item "} << p.offset() + p.length());
                    require_at_most(n, done + p.length(), most_of(sizeof(T)), "items");
                    append(n, *used, runs, sizeof(T), "runs");
                });
            else
                for (auto const& used : n.used) runs += used.length();
            auto const like = child_of(n.pieces[0], 0);
            auto& ends = n.children[0];
            ends.path = n.path;
            static_cast<void>(add_buffer(ends, -1, {}));
            auto* const to = add_buffer(ends, bytes_of(n, runs, sizeof(T)), {});
            n.parts[0] = {.format = like.format(),
                          .name = like.name(),
                          .length = runs,
                          .null_count = 0,
                          .buffers = ends.buffers,
                          .flags = like.flags(),
                          .metadata = like.metadata()};
            if (to == nullptr) return;
            for_each_piece(n, [&](column_view p, part const* used, std::int64_t done) {
                auto before = p.offset();
                for (auto k = used->begin; k < used->end; ++k) {
                    auto const end = load_end(child_of(p, 0), k);
                    if (end <= before)
                        refuse(n, message{"its run ends do not grow: "} << end << " comes after " << before);
                    before = end;
                    store(to, k + used->shift(), static_cast<T>((std::min)(end - p.offset(), p.length()) + done));
                }
            });
        });
    }

    /// Merges equal dictionaries and appends the others, so that values may repeat.
    /// \return  whether there are several
    [[nodiscard]] bool add_indices(node& n) {
        if (!is_writing_) find_dictionaries(n);
        if (n.children[0].pieces.size() == 1) return add_items(n), false;
        with_integer(n.pieces[0].type().id, [&]<class T>(T) {
            auto* const to = add_buffer(n, bytes_of(n, n.length, sizeof(T)), {});
            if (to == nullptr) return;
            for_each_piece(n, [&](column_view p, part const* used, std::int64_t done) {
                auto const valid = n.validity(done, p.length());
                for (std::int64_t k = 0; k < p.length(); ++k) {
                    // Negative indices become large numbers.
                    auto const index = load<T>(data_of(p, 1), p.offset() + k);
                    if (valid[k] && static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(used->end))
                        refuse(n, message{"index "} << static_cast<std::int64_t>(index)
                                                    << " is outside of its dictionary of " << used->end << " items");
                    store(to, done + k, valid[k] ? shifted(index, used->at) : T{});
                }
            });
        });
        return true;
    }
    void find_dictionaries(node& n) const {
        auto& distinct = n.children[0].pieces;
        std::vector<std::int64_t> begins;
        std::vector<column> copies;
        std::int64_t total = 0;
        for (std::size_t i = 0; i < n.pieces.size(); ++i) {
            auto const d = dictionary_of(n.pieces[i]);
            auto const found = find_dictionary(distinct, copies, d);
            if (found == distinct.size()) {
                distinct.push_back(d);
                begins.push_back(total);
                if (!checked_add(total, d.length(), total))
                    refuse(n, message{"its dictionaries overflow"}, errc::overflow);
            }
            n.used[i] = {0, d.length(), begins[found]};
        }
        if (distinct.size() == 1) return;
        auto const& type = n.pieces[0].type();
        auto const most = most_of(item_bits(type) / 8);
        bool const is_signed = with_integer(type.id, []<class T>(T) { return std::is_signed_v<T>; });
        require_at_most(n, total - 1, is_signed || type.id == type_id::uint64 ? most : 2 * most + 1,
                        "as its last index, with all dictionaries");
    }
    /// Each dictionary is copied once, for all comparisons.
    [[nodiscard]] std::size_t find_dictionary(std::vector<column_view> const& distinct, std::vector<column>& copies,
                                              column_view d) const {
        for (std::size_t i = 0; i < distinct.size(); ++i)
            if (is_same_tree(distinct[i].node(), d.node(), std::equal_to<>{})) return i;
        if (distinct.empty()) return 0;
        auto const compact = [&](column_view c) { return compaction{api_, where_}.run({&c, 1}, host_space{}); };
        if (copies.empty()) copies.push_back(compact(distinct[0]));
        copies.push_back(compact(d));
        for (std::size_t i = 0; i < distinct.size(); ++i)
            if (has_same_values(copies[i], copies.back())) return copies.pop_back(), i;
        return distinct.size();
    }

    char const* api_;
    std::source_location where_;
    bool is_writing_ = false;
    std::byte* begin_ = nullptr;
    std::int64_t total_ = 0;
    std::size_t next_ = 0;
    std::vector<place> places_{};  // in the order of the walks
    std::vector<column_buffer> buffers_{};
    std::vector<view_data> data_{};
    std::map<origin, std::size_t> known_{};
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
