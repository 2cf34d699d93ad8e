// ferry: selects the method of a CUDA copy: a pure function of known facts, with measured constants (D8).
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/pieces.hpp>
#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda {

/// The methods by which a copy is executed.
enum class copy_method : std::uint8_t {
    nothing,
    host,      ///< both sides are pageable memory: the calling thread copies
    plain,     ///< one cudaMemcpyAsync on the stream
    bounced,   ///< into one pinned bounce buffer on the stream; the calling thread waits, then copies out of it
    staged,    ///< chunks through pinned slots, by lanes; complete when the call returns
    pitched,   ///< cudaMemcpy2DAsync or cudaMemcpy3DAsync for each index of the outer loops
    batch,     ///< all pieces in one cudaMemcpyBatchAsync
    kernel,    ///< one kernel on a device that can access both sides
    packed,    ///< packed on the device, then copied as bytes: the destination is dense
    unpacked,  ///< copied as bytes, then unpacked on the device: the source is dense
    by_host,   ///< copied to the host, rearranged there by loops, and copied back where needed
};

/// Facts besides the plan that determine the method.
struct copy_facts {
    device to, from;         ///< device of the destination and of the source
    int lanes = 8;           ///< lanes of the copier
    int processors = 16;     ///< processors of the host
    bool is_here = true;     ///< the stream belongs to the GPU of the copy
    bool can_pack = false;   ///< pack kernels are available and can access all device memory involved
    bool is_fresh = false;   ///< the destination's pages have not been written yet
    bool dense_dst = false;  ///< the plan writes every byte between the first and the last one
    bool dense_src = false;  ///< the plan reads every byte between the first and the last one
};

/// Parameters of a staged transfer.
struct staging {
    int lanes;           ///< host threads, each with its own stream
    int slots;           ///< chunks that a lane has in flight
    std::size_t chunk;   ///< bytes
    bool non_temporal;   ///< the host copies with non-temporal stores
    int taper = 1;       ///< parts of each lane's last chunk: no transfer overlaps with copying it out
    /// The waiting thread populates destination pages ahead of the lanes: a page fault takes longer than filling the
    /// page. Measured: 1 GiB by 8 lanes at 0.50 and 0.55 of the link; without this at 0.48 and 0.47.
    bool populate_ahead = false;
};

namespace detail {

inline constexpr std::size_t kib = 1024, mib = kib * kib;

/// Up to this size an own pinned buffer beats cudaMemcpyAsync to pageable memory: 6.8 instead of 7.8 µs for 4 KiB, 12
/// instead of 16 for 64 KiB, 98 instead of 117 for 1 MiB. Above it, the driver's pipelined copy is faster.
inline constexpr std::size_t bounced_to = mib;
/// From this size a staged transfer beats cudaMemcpyAsync, which uses one staging slot of the driver.
inline constexpr std::size_t staged_from = 4 * mib;
/// The same for unpopulated destination pages, whose page faults cost the driver's single thread more than the copy.
inline constexpr std::size_t staged_fresh_from = 2 * mib;
/// From these sizes larger chunks are faster, the more of them are in flight: 49 GB/s at 256 MiB and 51 at 1 GiB by 8
/// lanes with 4 chunks of 2 MiB each; 4 MiB chunks reach 45 and 49, two slots 36, and 512 KiB chunks 27 at 64 MiB.
inline constexpr std::size_t medium_from = 16 * mib, large_from = 64 * mib;
inline constexpr staging small_touched{4, 4, 512 * kib, true};
inline constexpr staging medium_touched{8, 4, mib, true};
/// Copying out the last chunks takes 0.28 ms at 64 MiB, 256 MiB and 1 GiB, and twice that with chunks of 4 MiB.
inline constexpr staging large_touched{8, 4, 2 * mib, true, 4};
/// Unpopulated destination: the kernel has just zeroed each page in the cache, so cached stores are faster.
inline constexpr staging small_fresh{8, 2, 512 * kib, false};
inline constexpr staging large_fresh{64, 2, 2 * mib, false};
inline constexpr std::size_t large_upload_from = 128 * mib;
inline constexpr staging small_upload{4, 4, 512 * kib, true};
inline constexpr staging large_upload{8, 2, 2 * mib, true};
/// Chunks for each lane below which fewer lanes are used: waking a lane costs more.
inline constexpr std::size_t pieces_per_lane = 2;

/// A pitched copy costs 2.3 µs at any size: from this number of calls the other methods are faster.
inline constexpr std::int64_t most_pitched_calls = 32;
/// A batch costs 0.5 µs for each piece.
inline constexpr std::int64_t most_batch_pieces = 100'000;
inline constexpr std::int64_t smallest_batch_piece = 256;
/// Bytes packed or unpacked at once. Larger strided copies are processed in slabs, with two buffers of this size.
inline constexpr std::size_t slab = 64 * mib, most_slab = std::size_t{1} << 40;
/// Slab size where the copy engine transfers the slabs: it is not interrupted between them, and a smaller first slab
/// starts the transfer earlier. 64 MiB took 1.03 times as long as a block of bytes, in one slab 1.05, in the same run.
/// Lanes synchronise at each slab.
inline constexpr std::size_t queued_slab = 16 * mib;
/// Granularity in which driver pools allocate from the device, and in which they release memory above their threshold.
inline constexpr std::size_t pool_step = 32 * mib;

[[nodiscard]] constexpr std::int64_t product(copy_plan const& p, int levels) noexcept {
    std::int64_t n = 1;
    for (int i = 0; i < levels; ++i) n *= p.extents[i];
    return n;
}

/// Whether one call of the runtime copies several units, as rows or slices.
[[nodiscard]] constexpr bool has_rows(copy_plan const& p) noexcept {
    return (p.kind == copy_kind::rows || p.kind == copy_kind::gather || p.kind == copy_kind::transpose) &&
           loops_per_copy(p, p.unit) > 0;
}

[[nodiscard]] constexpr bool is_device(device d) noexcept {
    return d.type == device_type::cuda || d.type == device_type::cuda_managed;
}

/// Whether kernels of one GPU access both sides at full speed.
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
    if (down && bytes <= bounced_to) return copy_method::bounced;
    if (down && f.is_fresh) return bytes < staged_fresh_from ? copy_method::plain : copy_method::staged;
    return bytes < staged_from ? copy_method::plain : copy_method::staged;
}

/// Selects the parameters of a staged transfer.
///
/// \param bytes  size of the transfer
/// \param f      facts of the copy; `lanes` bounds the lanes used
/// \return       lanes, slots and chunk size
[[nodiscard]] constexpr staging choose_staging(std::size_t bytes, copy_facts const& f) noexcept {
    using namespace detail;
    bool const up = f.from.type == device_type::cpu;
    staging s = up                    ? (bytes < 16 * mib ? small_upload : large_upload)
                : f.is_fresh          ? (bytes < 32 * mib ? small_fresh : large_fresh)
                : bytes < medium_from ? small_touched
                : bytes < large_from  ? medium_touched
                                      : large_touched;
    if (up && bytes < large_upload_from) s.chunk = small_upload.chunk;
    if (s.lanes > f.lanes) s.lanes = f.lanes;
    while (s.lanes > 1 && bytes < s.chunk * pieces_per_lane * static_cast<std::size_t>(s.lanes)) --s.lanes;
    s.populate_ahead = !up && f.is_fresh && s.lanes < f.processors;
    return s;
}

/// Selects the method for a plan.
///
/// \param p  plan of the copy
/// \param f  facts of the copy
/// \return   the fastest method that supports both
[[nodiscard]] constexpr copy_method choose(copy_plan const& p, copy_facts const& f) noexcept {
    using namespace detail;
    if (p.kind == copy_kind::empty) return copy_method::nothing;
    if (f.to.type == device_type::cpu && f.from.type == device_type::cpu) return copy_method::host;
    if (p.kind == copy_kind::contiguous) return choose_bytes(static_cast<std::size_t>(p.unit), f);

    bool const one = is_one_device(f), from_device = is_device(f.from), to_device = is_device(f.to);
    // Pinned and pageable memory: the host copies, as the runtime would.
    if (!from_device && !to_device) return copy_method::by_host;
    bool const near = one || !(from_device && to_device);  // only one GPU is involved
    bool const pageable = f.to.type == device_type::cpu || f.from.type == device_type::cpu;
    bool const rows = has_rows(p);
    auto const calls = rows ? count_copies(p, p.unit) : 0;
    bool const few = rows && calls <= most_pitched_calls, can_rearrange = f.can_pack || (few && f.is_here);
    if (p.rank == 0) return copy_method::by_host;  // one unit that counts bits

    if (one && f.can_pack)
        return rows && calls == 1 && p.unit >= static_cast<std::int64_t>(mib) ? copy_method::pitched
                                                                              : copy_method::kernel;
    if (near && !one) {
        // Wide rows are as fast as a contiguous block, and the copy engine writes pinned memory directly. The engine
        // processes short rows one by one, and a single driver thread writes pageable memory: the device packs these
        // first.
        bool const wide = few && p.unit >= 4096;
        bool const small = p.total_bytes < static_cast<std::int64_t>(staged_from);
        if (from_device && f.dense_dst && can_rearrange && !(wide && (!pageable || small))) return copy_method::packed;
        if (to_device && f.dense_src && can_rearrange && !(wide && (!pageable || small))) return copy_method::unpacked;
    }
    if (few) return copy_method::pitched;
    if (!near && f.can_pack) return copy_method::kernel;
    if (!pageable && near && is_scattered(p)) return copy_method::batch;
    if (rows && calls <= 16 * most_pitched_calls && !pageable) return copy_method::pitched;
    return copy_method::by_host;
}

}  // namespace ferry::inline v0::cuda
