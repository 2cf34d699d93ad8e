// ferry: by which means a CUDA copy is made: a pure function of what is known, with constants that were measured (D8).
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/pieces.hpp>
#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda {

/// The means, in no order.
enum class means : std::uint8_t {
    nothing,
    host,      ///< both sides are ordinary memory: the calling thread copies
    plain,     ///< one cudaMemcpyAsync on the stream
    bounced,   ///< into one pinned buffer on the stream; the calling thread waits for it and copies from there
    staged,    ///< chunks through pinned slots, by lanes; done when the call returns
    pitched,   ///< cudaMemcpy2DAsync or 3DAsync for each index of the loops around them
    batch,     ///< all pieces in one cudaMemcpyBatchAsync
    kernel,    ///< one kernel on a device that holds both sides, or reaches its peer's memory
    packed,    ///< made compact on the device, then carried as bytes: the destination is dense
    unpacked,  ///< carried as bytes, then spread out on the device: the source is dense
    by_host,   ///< carried to the host, rearranged there by plain loops, and back if need be
};

/// What a choice depends on besides the plan.
struct copy_facts {
    device to, from;
    int lanes = 8;           ///< that the copier has
    int processors = 16;     ///< of the host
    bool is_here = true;     ///< the GPU that takes part is the one of the stream
    bool can_pack = false;   ///< there are kernels for it, which reach what lies on a GPU
    bool is_fresh = false;   ///< the destination's pages have never been written
    bool dense_dst = false;  ///< the plan writes every byte between its first and its last
    bool dense_src = false;  ///< and reads every byte
};

/// How a staged transfer is cut.
struct staging {
    int lanes;          ///< host threads, each with a stream of its own
    int slots;          ///< chunks that a lane has under way
    std::size_t chunk;  ///< bytes
    bool past_caches;   ///< stores on the host leave the caches alone
    int taper = 1;      ///< pieces of each lane's last chunk: while it is copied out nothing travels any more
    /// Who waits for the lanes makes pages for them: to make a fresh one takes longer than to fill it. 1 GiB by
    /// 8 lanes went at 0.50 and 0.55 of the link in two turns, and without this at 0.48 and 0.47.
    bool pages_ahead = false;
};

namespace detail {

inline constexpr std::size_t kib = 1024, mib = kib * kib;

/// Up to here a pinned buffer of one's own beats cudaMemcpyAsync to ordinary memory: 6.8 instead of 7.8 µs for 4 KiB,
/// 12 instead of 16 for 64 KiB, 98 instead of 117 for 1 MiB. Beyond, the driver's overlaps its two halves.
inline constexpr std::size_t bounced_to = mib;
/// Where a staged transfer begins to win over cudaMemcpyAsync, which goes through one slot of the driver's own.
inline constexpr std::size_t staged_from = 4 * mib;
/// Fresh pages cost the driver's one thread more than the copy: lanes win earlier.
inline constexpr std::size_t staged_fresh_from = 2 * mib;
/// From these sizes on larger chunks win, the more of them are under way: 49 GB/s at 256 MiB and 51 at 1 GiB by 8 lanes
/// with 4 chunks of 2 MiB each, where 4 MiB chunks reach 45 and 49, two slots 36, and 512 KiB chunks 27 at 64 MiB.
inline constexpr std::size_t medium_from = 16 * mib, large_from = 64 * mib;
inline constexpr staging small_touched{4, 4, 512 * kib, true};
inline constexpr staging medium_touched{8, 4, mib, true};
/// Copying out the last chunks takes 0.28 ms at 64 MiB, at 256 MiB and at 1 GiB, and twice that with chunks of 4 MiB.
inline constexpr staging large_touched{8, 4, 2 * mib, true, 4};
/// Fresh memory: the kernel has just zeroed the page into the cache, so that stores through it win.
inline constexpr staging small_fresh{8, 2, 512 * kib, false};
inline constexpr staging large_fresh{64, 2, 2 * mib, false};
inline constexpr std::size_t large_upload_from = 128 * mib;
inline constexpr staging small_upload{4, 4, 512 * kib, true};
inline constexpr staging large_upload{8, 2, 2 * mib, true};
/// A lane with less to do than this many chunks is not worth waking.
inline constexpr std::size_t pieces_per_lane = 2;

/// A pitched copy costs 2.3 µs whatever it carries: from this many on everything else wins.
inline constexpr std::int64_t most_pitched_calls = 32;
/// A batch costs half a microsecond for each piece.
inline constexpr std::int64_t most_batch_pieces = 100'000;
inline constexpr std::int64_t smallest_batch_piece = 256;
/// What is packed or unpacked in one go; a strided copy that is larger needs twice as much memory beside the result.
inline constexpr std::size_t slab = 64 * mib, most_slab = std::size_t{1} << 40;
/// Where the engine carries slabs it stops for none, and the less is packed before the first one travels the better:
/// 64 MiB took 1.03 times as long as a block of bytes where one slab took 1.05, side by side. Lanes stop for each.
inline constexpr std::size_t queued_slab = 16 * mib;
/// What the driver's pools get from the device at once, and give back when they may keep less.
inline constexpr std::size_t pool_step = 32 * mib;

[[nodiscard]] constexpr std::int64_t product(copy_plan const& p, int levels) noexcept {
    std::int64_t n = 1;
    for (int i = 0; i < levels; ++i) n *= p.extents[i];
    return n;
}

/// Whether each copy of the runtime carries rows or slices, not one unit.
[[nodiscard]] constexpr bool has_rows(copy_plan const& p) noexcept {
    return (p.kind == copy_kind::rows || p.kind == copy_kind::gather || p.kind == copy_kind::transpose) &&
           loops_per_copy(p, p.unit) > 0;
}

[[nodiscard]] constexpr bool is_device(device d) noexcept {
    return d.type == device_type::cuda || d.type == device_type::cuda_managed;
}

/// Whether kernels of one GPU reach both sides at full speed.
[[nodiscard]] constexpr bool is_one_device(copy_facts const& f) noexcept {
    return is_device(f.to) && is_device(f.from) &&
           (f.to.type != device_type::cuda || f.from.type != device_type::cuda || f.to.id == f.from.id);
}

[[nodiscard]] constexpr bool is_scattered(copy_plan const& p) noexcept {
    return p.kind == copy_kind::rows && p.unit >= smallest_batch_piece && product(p, p.rank) <= most_batch_pieces;
}

}  // namespace detail

/// How bytes in one piece travel.
[[nodiscard]] constexpr means choose_bytes(std::size_t bytes, copy_facts const& f) noexcept {
    using namespace detail;
    if (bytes == 0) return means::nothing;
    bool const down = is_device(f.from) && f.to.type == device_type::cpu,
               up = f.from.type == device_type::cpu && is_device(f.to);
    if ((!down && !up) || f.lanes < 1) return means::plain;
    if (down && bytes <= bounced_to) return means::bounced;
    if (down && f.is_fresh) return bytes < staged_fresh_from ? means::plain : means::staged;
    return bytes < staged_from ? means::plain : means::staged;
}

/// How a staged transfer of `bytes` is cut for as many lanes as there are.
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
    s.pages_ahead = !up && f.is_fresh && s.lanes < f.processors;
    return s;
}

/// How a plan is carried out.
[[nodiscard]] constexpr means choose(copy_plan const& p, copy_facts const& f) noexcept {
    using namespace detail;
    if (p.kind == copy_kind::empty) return means::nothing;
    if (f.to.type == device_type::cpu && f.from.type == device_type::cpu) return means::host;
    if (p.kind == copy_kind::contiguous) return choose_bytes(static_cast<std::size_t>(p.unit), f);

    bool const one = is_one_device(f), from_device = is_device(f.from), to_device = is_device(f.to);
    // Pinned memory on either side: the host copies, as the runtime would.
    if (!from_device && !to_device) return means::by_host;
    bool const near = one || !(from_device && to_device);  // no second GPU takes part
    bool const pageable = f.to.type == device_type::cpu || f.from.type == device_type::cpu;
    bool const rows = has_rows(p);
    auto const calls = rows ? count_copies(p, p.unit) : 0;
    bool const few = rows && calls <= most_pitched_calls, can_rearrange = f.can_pack || (few && f.is_here);
    if (p.rank == 0) return means::by_host;  // some bits

    if (one && f.can_pack)
        return rows && calls == 1 && p.unit >= static_cast<std::int64_t>(mib) ? means::pitched : means::kernel;
    if (near && !one) {
        // Wide rows are as fast as one piece, and pinned memory takes them straight from the engine. The engine handles
        // short ones one by one, and pageable memory is written by one thread of the driver's: the device makes them
        // compact first.
        bool const wide = few && p.unit >= 4096;
        bool const small = p.total_bytes < static_cast<std::int64_t>(staged_from);
        if (from_device && f.dense_dst && can_rearrange && !(wide && (!pageable || small))) return means::packed;
        if (to_device && f.dense_src && can_rearrange && !(wide && (!pageable || small))) return means::unpacked;
    }
    if (few) return means::pitched;
    if (!near && f.can_pack) return means::kernel;
    if (!pageable && near && is_scattered(p)) return means::batch;
    if (rows && calls <= 16 * most_pitched_calls && !pageable) return means::pitched;
    return means::by_host;
}

}  // namespace ferry::inline v0::cuda
