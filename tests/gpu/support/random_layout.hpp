// Random pairs of layouts of one shape, and what a copy between them means.
#pragma once

#include <ferry/space/copy_plan.hpp>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Strides in elements; what the elements reach from the first one, in elements.
struct layout {
    std::vector<std::int64_t> shape, strides;
    bool padded = false;
    std::int64_t lowest = 0, highest = 0;

    layout(std::vector<std::int64_t> extents, std::vector<std::int64_t> steps)
        : shape{std::move(extents)}, strides{std::move(steps)} {
        for (std::size_t i = 0; i < shape.size(); ++i) {
            auto const far = (shape[i] > 0 ? shape[i] - 1 : 0) * strides[i];
            (far < 0 ? lowest : highest) += far;
        }
    }
    [[nodiscard]] std::int64_t bits(ferry::data_type t) const { return ferry::bits_per_element(t, padded); }
    /// Bytes before the first element, and from it on.
    [[nodiscard]] std::int64_t before(ferry::data_type t) const { return (-lowest * bits(t) + 7) / 8; }
    [[nodiscard]] std::int64_t after(ferry::data_type t) const { return ((highest + 1) * bits(t) + 7) / 8; }
    [[nodiscard]] ferry::tensor_view at(void* first, ferry::data_type t, ferry::device where) const {
        return {first,
                t,
                ferry::shape_view{shape},
                ferry::strides_view{strides},
                where,
                padded ? ferry::flags::subbyte_padded : ferry::flags::none};
    }
    [[nodiscard]] std::string text() const {
        std::string s = padded ? "padded [" : "[";
        for (std::size_t i = 0; i < shape.size(); ++i)
            s += std::to_string(shape[i]) + ":" + std::to_string(strides[i]) + " ";
        return s + "]";
    }
};

inline layout compact(std::vector<std::int64_t> shape) {
    std::vector<std::int64_t> strides(shape.size());
    ferry::fill_compact_strides(ferry::shape_view{shape}, strides.data());
    return {std::move(shape), std::move(strides)};
}

class layouts {
   public:
    explicit layouts(std::uint64_t seed) : engine_{seed} {}

    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
    bool chance(int percent) { return below(100) < percent; }

    std::vector<std::int64_t> shape() {
        if (chance(25)) return {1 + below(3), 7 + below(150), 7 + below(150)};          // whole tiles and their edges
        if (chance(40)) return {1 + below(3), 16 + 4 * below(40), 16 + 4 * below(40)};  // in steps of a vector
        std::vector<std::int64_t> result(static_cast<std::size_t>(below(7)));
        std::int64_t room = 4096;
        for (auto& extent : result) {
            extent = chance(10) ? 1 : 1 + below(room < 12 ? room : chance(20) ? room : 12);
            room = room / extent > 0 ? room / extent : 1;
        }
        return result;
    }

    /// Elements apart; with `may_repeat` also strides of 0 and windows that overlap.
    layout strided(std::vector<std::int64_t> const& shape, bool may_repeat) {
        std::vector<std::size_t> order(shape.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
        if (chance(70))
            for (std::size_t i = order.size(); i > 1; --i)
                std::swap(order[i - 1], order[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
        std::vector<std::int64_t> strides(shape.size());
        int const gaps = chance(50) ? 0 : 40, flips = chance(60) ? 0 : 40, repeats = may_repeat && chance(30) ? 40 : 0;
        std::int64_t step = chance(20) ? 1 + below(3) : 1;
        for (auto const i : order) {
            if (chance(repeats)) continue;
            strides[i] = chance(flips) ? -step : step;
            if (!chance(repeats / 4)) step *= shape[i];
            if (chance(gaps)) step += chance(50) ? 4 : below(5);
        }
        return {shape, strides};
    }

    ferry::data_type type() {
        constexpr std::pair<std::uint8_t, std::uint16_t> choices[] = {
            {8, 1}, {16, 1}, {32, 1}, {64, 1}, {64, 2}, {8, 3}, {16, 3}, {32, 3}, {8, 5},
            {8, 7}, {8, 11}, {32, 5}, {64, 4}, {64, 9}, {1, 1}, {2, 1},  {3, 1},  {4, 1},
            {5, 1}, {6, 1},  {7, 1},  {4, 3},  {6, 3},  {1, 9}, {3, 33}};
        auto const& [bits, lanes] = choices[below(chance(60) ? 5 : static_cast<std::int64_t>(std::size(choices)))];
        return {ferry::type_code::uint, bits, lanes};
    }

    void fill(std::vector<std::uint8_t>& bytes) {
        std::uint64_t x = engine_();
        for (auto& b : bytes)
            b = static_cast<std::uint8_t>((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
    }

   private:
    std::mt19937_64 engine_;
};

/// A random copy: layouts, element type, and host images of both sides with guards around the destination.
struct random_copy {
    static constexpr std::int64_t guard = 48;
    layouts random;
    std::vector<std::int64_t> shape = random.shape();
    ferry::data_type type = random.type();
    layout to = random.strided(shape, false), from = random.strided(shape, true);
    std::int64_t dst_first = 0, src_first = 0;  // bytes
    std::vector<std::uint8_t> dst, src;

    explicit random_copy(std::uint64_t seed) : random{seed} {
        bool const plain = random.chance(15);  // a compact transpose, as libraries make them
        if (plain) {
            shape = {1 + random.below(3), 16 + 4 * random.below(40), 16 + 4 * random.below(40)};
            type = {ferry::type_code::uint, static_cast<std::uint8_t>(8 << random.below(4))};
            to = compact(shape);
            from = {shape, {shape[1] * shape[2], 1, shape[1]}};
        }
        to.padded = random.chance(30);
        from.padded = random.chance(30);
        // Addresses as aligned as allocations are, mostly; odd ones otherwise.
        auto const shift = [this, plain] { return plain || random.chance(70) ? 0 : random.below(16); };
        auto const up = [](std::int64_t n) { return (n + 15) / 16 * 16; };
        dst_first = up(guard + to.before(type)) + shift();
        src_first = up(from.before(type)) + shift();
        dst.resize(static_cast<std::size_t>(dst_first + to.after(type) + guard));
        src.resize(static_cast<std::size_t>(src_first + from.after(type)));
        random.fill(dst);
        random.fill(src);
    }
    [[nodiscard]] ferry::copy_plan plan() {
        return ferry::make_copy_plan(to.at(dst.data() + dst_first, type, ferry::cpu),
                                     from.at(src.data() + src_first, type, ferry::cpu));
    }
    [[nodiscard]] std::string text() const {
        ferry::message m;
        m << type;
        return std::string{m.c_str()} + " to " + to.text() + " from " + from.text();
    }
};

}  // namespace support
