// Compares copies of random layouts with a reference implementation that copies each element bit by bit.
#pragma once

#include <ferry/space/copy_plan.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace copy_suite {

struct layout {
    std::vector<std::int64_t> shape, strides;  // strides in elements
    bool padded = false;
    std::int64_t lowest = 0, highest = 0;  // offsets from the first element, in elements
};

class generator {
   public:
    explicit generator(std::uint64_t seed) : engine_{seed} {}

    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
    bool chance(int percent) { return below(100) < percent; }

    std::vector<std::int64_t> shape() {
        if (chance(4)) return {1 + below(3), 20 + below(130), 20 + below(130)};  // whole tiles and edges
        auto const rank = static_cast<std::size_t>(below(7));
        std::vector<std::int64_t> result(rank);
        std::int64_t room = chance(2) ? 8192 : chance(10) ? 1500 : 160;
        for (auto& extent : result) {
            // Mostly small; sometimes one dimension is long enough for more than one band.
            extent = chance(15) ? 1 : chance(25) ? 1 + below(room) : 1 + below(room < 9 ? room : 9);
            room = room / extent > 0 ? room / extent : 1;
        }
        if (rank > 0 && chance(2)) result[static_cast<std::size_t>(below(static_cast<std::int64_t>(rank)))] = 0;
        for (std::size_t i = rank; i > 1; --i)
            std::swap(result[i - 1], result[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
        return result;
    }

    // Strides of distinct elements; with `may_repeat` also stride 0 and overlapping windows.
    layout strided(std::vector<std::int64_t> const& shape, bool may_repeat) {
        layout result{shape, std::vector<std::int64_t>(shape.size())};
        std::vector<std::size_t> order(shape.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
        if (chance(60))
            for (std::size_t i = order.size(); i > 1; --i)
                std::swap(order[i - 1], order[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
        int const gaps = chance(50) ? 0 : 40, flips = chance(60) ? 0 : 40, repeats = may_repeat && chance(30) ? 40 : 0;
        std::int64_t step = chance(20) ? 1 + below(3) : 1;
        for (auto const i : order) {
            if (shape[i] == 1 && chance(50)) {
                result.strides[i] = below(2000) - 1000;  // R27: ignored
                continue;
            }
            if (chance(repeats)) continue;
            result.strides[i] = chance(flips) ? -step : step;
            if (!chance(repeats / 4)) step *= shape[i] > 0 ? shape[i] : 1;
            if (chance(gaps)) step += below(5);
        }
        for (std::size_t i = 0; i < shape.size(); ++i) {
            auto const reach = (shape[i] > 0 ? shape[i] - 1 : 0) * result.strides[i];
            (reach < 0 ? result.lowest : result.highest) += reach;
        }
        return result;
    }

    ferry::data_type type() {
        struct choice {
            std::uint8_t bits;
            std::uint16_t lanes;
        };
        constexpr choice choices[] = {{8, 1},  {16, 1}, {8, 3}, {32, 1}, {16, 3}, {64, 1}, {32, 3}, {64, 2}, {32, 5},
                                      {64, 4}, {8, 5},  {8, 7}, {8, 11}, {64, 5}, {64, 9}, {1, 1},  {2, 1},  {3, 1},
                                      {4, 1},  {5, 1},  {6, 1}, {7, 1},  {4, 2},  {4, 3},  {6, 3},  {1, 9},  {3, 33}};
        auto const c = choices[below(sizeof choices / sizeof choices[0])];
        return {ferry::type_code::uint, c.bits, c.lanes};
    }

    void fill(std::vector<std::uint8_t>& bytes) {
        std::uint64_t x = engine_();
        for (auto& b : bytes) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            b = static_cast<std::uint8_t>(x >> 56);
        }
    }

   private:
    std::mt19937_64 engine_;
};

inline constexpr std::int64_t guard = 40;  // bytes on each side

// Memory of exactly the size of a layout, between guards; sub-byte tensors start at bit 0 of a byte.
struct storage {
    std::vector<std::uint8_t> bytes;
    std::int64_t first = 0;  // of the first element, in bytes

    storage(layout const& l, std::int64_t bits, std::int64_t shift, std::int64_t guards) {
        auto const below = (-l.lowest * bits + 7) / 8;
        auto const above = ((l.highest + 1) * bits + 7) / 8;
        first = guards + shift + below;
        bytes.resize(static_cast<std::size_t>(first + above + guards));
    }
};

inline bool get_bit(std::vector<std::uint8_t> const& bytes, std::int64_t at) {
    return (bytes[static_cast<std::size_t>(at >> 3)] >> (at & 7) & 1) != 0;
}
inline void set_bit(std::vector<std::uint8_t>& bytes, std::int64_t at, bool value) {
    auto& b = bytes[static_cast<std::size_t>(at >> 3)];
    b = static_cast<std::uint8_t>((b & ~(1 << (at & 7))) | (value ? 1 << (at & 7) : 0));
}

// The reference implementation of a copy.
inline void oracle(layout const& d, storage& dst, layout const& s, storage const& src, ferry::data_type type) {
    auto const dst_bits = ferry::bits_per_element(type, d.padded), src_bits = ferry::bits_per_element(type, s.padded);
    auto const both = dst_bits < src_bits ? dst_bits : src_bits;
    std::int64_t count = 1;
    for (auto const extent : d.shape) count *= extent;
    std::vector<std::int64_t> index(d.shape.size());
    for (std::int64_t n = 0; n < count; ++n) {
        std::int64_t to = 0, from = 0;
        for (std::size_t i = 0; i < index.size(); ++i) {
            to += index[i] * d.strides[i];
            from += index[i] * s.strides[i];
        }
        to = dst.first * 8 + to * dst_bits;
        from = src.first * 8 + from * src_bits;
        if ((dst_bits | src_bits) % 8 == 0) {
            std::memcpy(dst.bytes.data() + to / 8, src.bytes.data() + from / 8, static_cast<std::size_t>(both / 8));
        } else {
            for (std::int64_t b = 0; b < both; ++b) set_bit(dst.bytes, to + b, get_bit(src.bytes, from + b));
            for (std::int64_t b = both; b < dst_bits; ++b) set_bit(dst.bytes, to + b, false);
        }
        for (std::size_t i = index.size(); i-- > 0;) {
            if (++index[i] < d.shape[i]) break;
            index[i] = 0;
        }
    }
}

inline std::string describe(layout const& l, char const* name) {
    std::string text = std::string{name} + (l.padded ? " padded" : "") + " shape";
    for (auto const n : l.shape) text.append(" ").append(std::to_string(n));
    text += " strides";
    for (auto const n : l.strides) text.append(" ").append(std::to_string(n));
    return text;
}

// The elements of the layout at `begin`.
inline ferry::tensor_view view_of(layout const& l, storage const& memory, ferry::data_type type, bool implicit,
                                  void* begin, ferry::device where) {
    auto const bits = l.padded ? ferry::flags::subbyte_padded : ferry::flags::none;
    ferry::strides_view const strides = implicit ? ferry::strides_view{} : ferry::strides_view{l.strides};
    return {static_cast<std::uint8_t*>(begin) + memory.first, type, ferry::shape_view{l.shape}, strides, where, bits};
}

inline bool is_compact(layout const& l) {
    std::int64_t step = 1;
    for (std::size_t i = l.shape.size(); i-- > 0;) {
        if (l.strides[i] != step) return false;
        step *= l.shape[i];
    }
    return true;
}

// Makes one random copy by `copy(dst, src, to_at, from_at)`, which copies `src.bytes` to `dst.bytes`; `to_at(begin,
// device)` and `from_at` make the views of such memory. Returns the kind of the plan. On failure, reports how to repeat
// the copy.
template <class Copy>
ferry::copy_kind check_one(std::uint64_t seed, Copy copy) {
    generator random{seed};
    auto const shape = random.shape();
    auto const type = random.type();
    layout d = random.strided(shape, false), s = random.strided(shape, true);
    if (random.chance(15)) s = d;
    d.padded = random.chance(30);
    s.padded = random.chance(30);
    storage dst{d, ferry::bits_per_element(type, d.padded), random.below(16), guard};
    // No guards around the source, so that AddressSanitizer detects reads out of bounds.
    storage src{s, ferry::bits_per_element(type, s.padded), random.below(16), 0};
    random.fill(dst.bytes);
    random.fill(src.bytes);
    storage expected = dst;
    oracle(d, expected, s, src, type);

    bool const implicit_to = is_compact(d) && random.chance(50), implicit_from = is_compact(s) && random.chance(50);
    auto const to_at = [&](void* begin, ferry::device where) {
        return view_of(d, dst, type, implicit_to, begin, where);
    };
    auto const from_at = [&](void* begin, ferry::device where) {
        return view_of(s, src, type, implicit_from, begin, where).as_read_only();
    };
    auto const plan = ferry::make_copy_plan(to_at(dst.bytes.data(), ferry::cpu), from_at(src.bytes.data(), ferry::cpu));
    copy(dst, src, to_at, from_at);
    if (dst.bytes != expected.bytes) {
        ferry::message name;
        name << type;
        FAIL_CHECK("seed ", seed, ": ", std::string{name.c_str()}, ", ", describe(d, "destination"), ", ",
                   describe(s, "source"), ", kind ", static_cast<int>(plan.kind), ", unit ", plan.unit);
    }
    return plan.kind;
}

}  // namespace copy_suite
