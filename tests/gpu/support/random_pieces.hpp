// Scattered pieces between two blocks of bytes, of every alignment and size, which do not overlap in the destination.
#pragma once

#include <ferry/cuda/piece.hpp>

#include <gpu/support/random_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace support {

struct random_pieces {
    struct place {
        std::size_t to, from, bytes;
    };
    std::vector<place> places;
    std::vector<std::uint8_t> src, dst, expected;

    random_pieces(std::uint64_t seed, std::size_t count) : src(std::size_t{1} << 20) {
        layouts random{seed};
        random.fill(src);
        // What both addresses of most pieces are multiples of, so that large words are met too.
        std::size_t const unit = std::size_t{1} << random.below(6);
        std::size_t end = 16;
        for (std::size_t i = 0; i < count; ++i) {
            std::size_t const most = random.chance(2)    ? 300'000
                                     : random.chance(5)  ? 40'000
                                     : random.chance(50) ? 600
                                                         : 20;
            place p{end + unit * static_cast<std::size_t>(random.below(5)), 0,
                    random.chance(5) ? 0 : static_cast<std::size_t>(random.below(static_cast<std::int64_t>(most)))};
            if (random.chance(50)) p.bytes = p.bytes / unit * unit;
            p.to = (p.to + unit - 1) / unit * unit;
            p.from =
                static_cast<std::size_t>(random.below(static_cast<std::int64_t>((src.size() - p.bytes) / unit))) * unit;
            if (random.chance(10)) ++p.from, ++p.to;
            end = p.to + p.bytes;
            if (p.from + p.bytes > src.size()) p.from = 0;
            places.push_back(p);
        }
        dst.assign(end + 64, 0xa5);
        random.fill(dst);
        expected = dst;
        for (auto const& p : places) std::memcpy(expected.data() + p.to, src.data() + p.from, p.bytes);
    }
    /// In blocks that lie at these addresses.
    [[nodiscard]] std::vector<ferry::cuda::piece> at(void* to, void const* from) const {
        std::vector<ferry::cuda::piece> made;
        for (auto const& p : places)
            made.push_back({static_cast<std::byte*>(to) + p.to, static_cast<std::byte const*>(from) + p.from, p.bytes});
        return made;
    }
};

}  // namespace support
