// ferry: selects the method of a CUDA copy with a pure function and measured thresholds.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/detail/copies/pieces.hpp>
#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda {

/// The methods by which a copy is executed.
enum class copy_method : std::uint8_t {
    nothing,   ///< no bytes to copy
    host,      ///< both sides have type cpu; the calling thread copies
    plain,     ///< one cudaMemcpyAsync on the stream; cudaMemcpyPeerAsync between GPUs
    bounced,   ///< one copy into pinned memory; the calling thread waits, then copies the data out of it
    staged,    ///< chunks through pinned slots, which lanes help to copy; complete when the call returns
    pitched,   ///< one pitched copy, such as cudaMemcpy2DAsync, for each index of the outer loops
    batch,     ///< all pieces in one cudaMemcpyBatchAsync
    kernel,    ///< one kernel on a device that can access both sides
    packed,    ///< packed on the device, then copied as bytes; requires a dense destination
    unpacked,  ///< copied as bytes, then unpacked on the device; requires a dense source
    by_host,   ///< copied to the host, rearranged there, and copied back if the destination is not on the host
};

/// Properties of the memory and of the machine which, together with the plan, determine the method.
struct copy_facts {
    device to, from;         ///< device of the destination and of the source
    int lanes = 8;           ///< number of lanes of the copier
    bool is_here = true;     ///< whether all GPU memory of the copy is on the stream's device
    bool can_pack = false;   ///< whether pack kernels are available and can access all device memory involved
    bool is_fresh = false;   ///< whether the destination's pages have not been written yet
    bool dense_dst = false;  ///< whether the plan writes each byte of the range that the destination spans
    bool dense_src = false;  ///< whether the plan reads, exactly once, each byte of the range that the source spans
};

/// Parameters of a staged transfer.
struct staging {
    int lanes;          ///< host threads that help the calling thread
    std::size_t chunk;  ///< size of a copy between a slot and the device, in bytes
    std::size_t piece;  ///< part of a chunk that one thread copies at once, in bytes
    bool non_temporal;  ///< whether the host copies with non-temporal stores
    /// Whether the calling thread also copies. False when a piece takes so long that the lanes would wait for chunks.
    bool caller_copies = true;
};

namespace detail {

inline constexpr std::size_t kib = 1024, mib = kib * kib;

/// From this size, other threads share the copy between pinned and pageable memory. For smaller copies, waking them
/// takes longer than it saves.
inline constexpr std::size_t staged_from = 512 * kib;
/// Sizes from which larger chunks, and for copies to a device cached stores, are faster.
inline constexpr std::size_t large_from = 16 * mib, cached_upload_from = 64 * mib, huge_pages_from = 32 * mib;
/// Minimum size of the pinned memory of a staged transfer.
inline constexpr std::size_t least_staged = 256 * kib;
/// From this size, the host examines where the memory is, and whether its pages are populated.
inline constexpr std::size_t examined_from = 2 * mib;

/// Maximum number of pitched copies. Each call has a fixed cost, so for more calls the other methods are faster.
inline constexpr std::int64_t most_pitched_calls = 32;
/// Maximum number of pieces in a batch, which costs the driver an operation for each piece.
inline constexpr std::int64_t most_batch_pieces = 100'000;
inline constexpr std::int64_t smallest_batch_piece = 256;
/// Default size of a slab in bytes. Strided copies that are larger are processed in slabs, with two buffers. With a
/// smaller first slab the transfer starts earlier.
inline constexpr std::size_t slab = 16 * mib, most_slab = std::size_t{1} << 40;
/// Granularity with which the driver's memory pools allocate device memory and release memory above their threshold.
inline constexpr std::size_t pool_step = 32 * mib;

[[nodiscard]] constexpr std::int64_t product(copy_plan const& p, int levels) noexcept {
    std::int64_t n = 1;
    for (int i = 0; i < levels; ++i) n *= p.extents[i];
    return n;
}

/// Returns whether one call of the runtime API can copy several units, as rows or slices.
[[nodiscard]] constexpr bool has_rows(copy_plan const& p) noexcept {
    return (p.kind == copy_kind::rows || p.kind == copy_kind::gather || p.kind == copy_kind::transpose) &&
           loops_per_copy(p, p.unit) > 0;
}

[[nodiscard]] constexpr bool is_device(device d) noexcept {
    return d.type == device_type::cuda || d.type == device_type::cuda_managed;
}

/// Returns whether kernels of one GPU access both sides at full speed.
[[nodiscard]] constexpr bool is_one_device(copy_facts const& f) noexcept {
    return is_device(f.to) && is_device(f.from) &&
           (f.to.type != device_type::cuda || f.from.type != device_type::cuda || f.to.id == f.from.id);
}

[[nodiscard]] constexpr bool is_scattered(copy_plan const& p) noexcept {
    return p.kind == copy_kind::rows && p.unit >= smallest_batch_piece && product(p, p.rank) <= most_batch_pieces;
}

}  // namespace detail

/// Selects the method for one contiguous block.
///
/// \param bytes  size of the block
/// \param f      facts of the copy
/// \return       nothing, plain, bounced or staged
[[nodiscard]] constexpr copy_method choose_bytes(std::size_t bytes, copy_facts const& f) noexcept {
    using namespace detail;
    if (bytes == 0) return copy_method::nothing;
    bool const down = is_device(f.from) && f.to.type == device_type::cpu,
               up = f.from.type == device_type::cpu && is_device(f.to);
    if ((!down && !up) || f.lanes < 1) return copy_method::plain;
    if (bytes >= staged_from) return copy_method::staged;
    return down ? copy_method::bounced : copy_method::plain;
}

/// Selects the parameters of a staged transfer.
///
/// \param bytes  size of the transfer
/// \param f      facts of the copy; `lanes` is the maximum number of lanes
/// \return       the parameters
[[nodiscard]] constexpr staging choose_staging(std::size_t bytes, copy_facts const& f) noexcept {
    using namespace detail;
    bool const up = f.from.type == device_type::cpu;
    // Small pieces, because the calling thread passes chunks on between the pieces that it copies.
    staging s = bytes < large_from ? staging{8, 512 * kib, up ? 32 * kib : 16 * kib, true}
                                   : staging{8, 2 * mib, 64 * kib, true};
    // The slots stay in the cache until the device reads them.
    if (up && bytes >= cached_upload_from) s.non_temporal = false;
    // The operating system has just zeroed each page in the cache, so cached stores are faster. Each thread populates
    // the huge pages that it fills, which limits the rate, so more threads are faster.
    if (!up && f.is_fresh) s.non_temporal = false;
    if (!up && f.is_fresh && bytes >= huge_pages_from) s.lanes = f.lanes, s.caller_copies = false, s.piece = s.chunk;
    if (s.lanes > f.lanes) s.lanes = f.lanes;
    return s;
}

/// Selects the method for a plan.
///
/// \param p  plan of the copy
/// \param f  facts of the copy
/// \return   the fastest method that supports the copy
[[nodiscard]] constexpr copy_method choose(copy_plan const& p, copy_facts const& f) noexcept {
    using namespace detail;
    if (p.kind == copy_kind::empty) return copy_method::nothing;
    if (f.to.type == device_type::cpu && f.from.type == device_type::cpu) return copy_method::host;
    if (p.kind == copy_kind::contiguous) return choose_bytes(static_cast<std::size_t>(p.unit), f);

    bool const one = is_one_device(f), from_device = is_device(f.from), to_device = is_device(f.to);
    // Pinned and pageable memory: the host copies the elements, as the runtime would.
    if (!from_device && !to_device) return copy_method::by_host;
    bool const near = one || !(from_device && to_device);  // only one GPU is involved
    bool const pageable = f.to.type == device_type::cpu || f.from.type == device_type::cpu;
    bool const rows = has_rows(p);
    auto const calls = rows ? count_copies(p, p.unit) : 0;
    bool const few = rows && calls <= most_pitched_calls, can_rearrange = f.can_pack || (few && f.is_here);
    if (p.rank == 0) return copy_method::by_host;  // a single unit, in bits

    if (one && f.can_pack)
        return rows && calls == 1 && p.unit >= static_cast<std::int64_t>(mib) ? copy_method::pitched
                                                                              : copy_method::kernel;
    if (near && !one) {
        // Wide rows are copied as fast as a contiguous block, and the copy engine writes pinned memory directly. Short
        // rows are slow, because the engine processes them one by one, and pageable memory is slow, because a single
        // thread of the driver writes it. In both cases, the device packs or unpacks, unless the rows are wide and the
        // copy is small.
        bool const wide = few && p.unit >= 4096;
        bool const small = p.total_bytes < static_cast<std::int64_t>(4 * mib);
        if (from_device && f.dense_dst && can_rearrange && !(wide && (!pageable || small))) return copy_method::packed;
        if (to_device && f.dense_src && can_rearrange && !(wide && (!pageable || small))) return copy_method::unpacked;
    }
    if (few) return copy_method::pitched;
    if (!near && f.can_pack) return copy_method::kernel;
    if (!pageable && near && is_scattered(p)) return copy_method::batch;
    if (rows && calls <= 16 * most_pitched_calls && !pageable) return copy_method::pitched;
    return copy_method::by_host;
}

}  // namespace FERRY_NAMESPACE::cuda
