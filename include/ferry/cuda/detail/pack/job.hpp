// ferry: selects the kernel for a plan and its arguments. A pure function, without a device.
#pragma once

#include <ferry/cuda/detail/pack/arguments.hpp>
#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda::detail {

enum class pack_kernel : std::uint8_t {
    gather_32,     ///< 32-bit counts and offsets
    gather_mixed,  ///< 32-bit counts, 64-bit offsets
    gather_64,
    tiles,         ///< a transpose through shared memory
    tiles_vector,  ///< the same, with accesses of four bytes
    bits,
};

/// A kernel launch: the kernel, its word size in bytes (0 for bits), and the number of blocks of `pack_threads`
/// threads. With 0 blocks there is nothing to copy.
struct pack_job {
    pack_kernel kernel = pack_kernel::gather_32;
    int word = 0;
    std::uint32_t blocks = 0;
    pack_arguments arguments;
};

/// Maximum number of blocks, far below the limit of a grid; the blocks loop over the remaining work.
inline constexpr std::uint64_t max_pack_blocks = std::uint64_t{1} << 16;
inline constexpr std::uint64_t limit_31 = std::uint64_t{1} << 31;

[[nodiscard]] constexpr std::uint32_t blocks_for(std::uint64_t count, std::uint64_t per_block) noexcept {
    auto const wanted = count / per_block + (count % per_block != 0);
    return static_cast<std::uint32_t>(wanted < max_pack_blocks ? wanted : max_pack_blocks);
}

[[nodiscard]] constexpr std::uint64_t magnitude_of(std::int64_t n) noexcept {
    return n < 0 ? ~static_cast<std::uint64_t>(n) + 1 : static_cast<std::uint64_t>(n);
}

/// The largest power of two that divides all strides and both addresses.
[[nodiscard]] inline std::uint64_t common_alignment(copy_plan const& p, void const* dst, void const* src,
                                                    std::uint64_t all) noexcept {
    all |= reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src);
    for (int i = 0; i < p.rank; ++i)
        all |= static_cast<std::uint64_t>(p.dst_strides[i]) | static_cast<std::uint64_t>(p.src_strides[i]);
    return all & (~all + 1);
}

inline void set_loop(pack_arguments& a, int i, std::int64_t extent, std::int64_t dst_stride,
                     std::int64_t src_stride) noexcept {
    a.extents[i] = extent;
    a.dst_strides[i] = dst_stride;
    a.src_strides[i] = src_stride;
    a.extent_divisors[i] =
        divisor{static_cast<std::uint64_t>(extent) < limit_31 ? static_cast<std::uint32_t>(extent) : 1u};
}

/// Configures a job that copies word by word, in the order of the destination.
inline void set_gather(pack_job& job, copy_plan const& p, int word) noexcept {
    auto& a = job.arguments;
    a.count = 1;
    if (auto const words = p.unit / word; words > 1) set_loop(a, a.rank++, words, word, word);
    std::uint64_t dst_reach = static_cast<std::uint64_t>(word), src_reach = dst_reach;
    for (int i = 0; i < a.rank; ++i) {
        a.count *= static_cast<std::uint64_t>(a.extents[i]);
        dst_reach += static_cast<std::uint64_t>(a.extents[i] - 1) * magnitude_of(a.dst_strides[i]);
        src_reach += static_cast<std::uint64_t>(a.extents[i] - 1) * magnitude_of(a.src_strides[i]);
    }
    job.kernel = a.count >= limit_31                              ? pack_kernel::gather_64
                 : dst_reach >= limit_31 || src_reach >= limit_31 ? pack_kernel::gather_mixed
                                                                  : pack_kernel::gather_32;
    job.word = word;
    job.blocks = blocks_for(a.count, pack_threads * gather_depth);
}

/// Configures a job that copies tiles, if the last two dimensions are large enough. Returns false when `gather` is
/// faster.
[[nodiscard]] inline bool set_tiles(pack_job& job, copy_plan const& p, int word) noexcept {
    auto& a = job.arguments;
    if (p.kind != copy_kind::transpose || p.unit != word) return false;
    int const column = p.rank - 1, row = p.rank - 2;
    std::int64_t const edge = word <= 2 ? 64 : 32;
    if (p.extents[column] < edge / 4 || p.extents[row] < edge / 4) return false;
    std::uint64_t const rows = static_cast<std::uint64_t>((p.extents[row] - 1) / edge) + 1,
                        columns = static_cast<std::uint64_t>((p.extents[column] - 1) / edge) + 1;
    if (rows >= limit_31 || columns >= limit_31) return false;
    a.count = rows * columns;
    for (int i = 0; i < row && a.count < limit_31; ++i)
        a.count = static_cast<std::uint64_t>(p.extents[i]) < limit_31
                      ? a.count * static_cast<std::uint64_t>(p.extents[i])
                      : limit_31;
    if (a.count >= limit_31) return false;
    a.tiles[0] = divisor{static_cast<std::uint32_t>(rows)};
    a.tiles[1] = divisor{static_cast<std::uint32_t>(columns)};
    // Accesses of four bytes require that the fastest dimensions are compact, and that all other strides and the
    // addresses are multiples of four.
    std::uint64_t others = reinterpret_cast<std::uintptr_t>(a.dst) | reinterpret_cast<std::uintptr_t>(a.src);
    for (int i = 0; i < p.rank; ++i) {
        if (i != column) others |= static_cast<std::uint64_t>(p.dst_strides[i]);
        if (i != row) others |= static_cast<std::uint64_t>(p.src_strides[i]);
    }
    bool const vector = word <= 2 && p.dst_strides[column] == word && p.src_strides[row] == word && others % 4 == 0 &&
                        p.extents[column] * word % 4 == 0 && p.extents[row] * word % 4 == 0;
    job.kernel = vector ? pack_kernel::tiles_vector : pack_kernel::tiles;
    job.word = word;
    job.blocks = blocks_for(a.count, 1);
    return true;
}

/// Configures a job with one thread for each destination byte, so that no two threads write the same byte (R19).
inline void set_bits(pack_job& job, copy_plan const& p, void* dst, void const* src) noexcept {
    auto& a = job.arguments;
    a.unit = p.unit;
    a.span = p.unit + p.zero_bits;
    a.dst_shift = static_cast<std::int32_t>(p.dst_offset & 7);
    a.src_shift = static_cast<std::int32_t>(p.src_offset & 7);
    a.dst = static_cast<std::byte*>(dst) + (p.dst_offset >> 3);
    a.src = static_cast<std::byte const*>(src) + (p.src_offset >> 3);
    // From the innermost loop outwards: the span of the inner loops, and whether the next loop steps over all of their
    // bytes.
    bool nested = true, apart = true;
    std::int64_t inner = a.span;
    a.outer = p.rank;
    a.bytes = (a.dst_shift + inner + 7) / 8;
    for (int i = p.rank; i-- > 0;) {
        auto const stride = p.dst_strides[i];
        nested = nested && stride >= inner;
        apart = stride % 8 == 0 && stride >= (a.dst_shift + inner + 7) / 8 * 8;
        inner += (p.extents[i] - 1) * stride;
        if (apart) continue;
        a.outer = i;
        a.bytes = (a.dst_shift + inner + 7) / 8;
    }
    if (!nested) {
        a.outer = p.rank;
        a.bytes = 0;
    }
    a.count = a.bytes != 0 ? static_cast<std::uint64_t>(a.bytes) : 1;
    for (int i = 0; i < a.outer; ++i) a.count *= static_cast<std::uint64_t>(p.extents[i]);
    job.kernel = pack_kernel::bits;
    job.blocks = a.bytes != 0 ? blocks_for(a.count, pack_threads) : 1;
}

/// Creates the launch for a plan and two addresses.
inline void make_pack_job(copy_plan const& p, void* dst, void const* src, pack_job& job) noexcept {
    auto& a = job.arguments;
    if (p.kind == copy_kind::empty) return;
    a.rank = p.rank;
    for (int i = 0; i < p.rank; ++i) set_loop(a, i, p.extents[i], p.dst_strides[i], p.src_strides[i]);
    if (p.counts_bits()) return set_bits(job, p, dst, src);
    a.dst = static_cast<std::byte*>(dst) + p.dst_offset;
    a.src = static_cast<std::byte const*>(src) + p.src_offset;
    auto const aligned = common_alignment(p, a.dst, a.src, static_cast<std::uint64_t>(p.unit) | 16);
    int const word = static_cast<int>(aligned);
    if (!set_tiles(job, p, word)) set_gather(job, p, word);
}

}  // namespace FERRY_NAMESPACE::cuda::detail
