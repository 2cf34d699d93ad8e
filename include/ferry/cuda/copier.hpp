// ferry: the fast CUDA back end: it keeps host threads, streams and pinned slots, and chooses the means of each copy.
// length: one verb per means, and each is a few lines
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/copier_memory.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/drain.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/fresh_notes.hpp>
#include <ferry/cuda/lanes.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/peers.hpp>
#include <ferry/cuda/pieces.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/slab_line.hpp>
#include <ferry/cuda/small_buffers.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/strided.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/cuda/temporary.hpp>
#include <ferry/cuda/transfer.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/host_copy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace ferry::inline v0::cuda {

/// Carries out a plan on memory of the current device, queued on a stream of it: `ferry::cuda::pack`.
using pack_function = void (*)(copy_plan const&, void* dst, void const* src, stream_ref);

/// What a copier may use. An aggregate whose order of members is frozen.
struct copier_options {
    int lanes = 0;                                    ///< host threads; 0: one for each processor, at most 8
    std::size_t slot_bytes = std::size_t{4} << 20;    ///< of one pinned slot, and so of the largest chunk
    std::size_t most_pinned = std::size_t{64} << 20;  ///< bytes of all slots together; one slot at least
    std::size_t most_kept = std::size_t{64}
                            << 20;  ///< bytes of pinned results that stay pinned when they are given back
    pack_function pack = nullptr;   ///< kernels for strided copies, where the program has them
    std::size_t most_small = std::size_t{4}
                             << 20;  ///< bytes of pinned buffers that small copies pass through; below 2 MiB: none
    std::size_t slab_bytes = detail::slab;  ///< at most, of a strided copy that the device rearranges at once, twice:
                                            ///< one row or element where that is more, and all of a copy that counts
                                            ///< bits; as much device memory stays for the next one, 32 MiB at least
};

/// A back end (`ferry::back_end`) that owns lanes: host threads, each with a stream and pinned slots, which start and
/// are pinned when a copy first needs them and stay until the copier dies, as do the pinned buffers of small copies.
/// The destructor lets them finish and joins them; no copy may be in progress then. Memory that it allocated may
/// outlive it. Thread-safe; one for a program is enough.
class copier {
   public:
    /// Calls nothing of CUDA.
    explicit copier(copier_options const& options = {})
        : pack_{options.pack},
          processors_{static_cast<int>(std::thread::hardware_concurrency())},
          lanes_{options.lanes > 0 ? options.lanes : std::clamp(processors_, 1, 8)},
          slot_bytes_{std::max(options.slot_bytes, std::size_t{4096})},
          slab_bytes_{static_cast<std::int64_t>(std::clamp(options.slab_bytes, std::size_t{4096}, detail::most_slab))},
          team_{lanes_, slot_bytes_, options.most_pinned},
          pinned_{options.most_kept},
          small_{options.most_small} {}
    copier(copier const&) = delete;
    copier& operator=(copier const&) = delete;

    [[nodiscard]] constexpr bool reaches(device d) const noexcept {
        return d.type == device_type::cpu || uses_cuda_streams(d.type);
    }

    /// Memory of any kind: ordinary memory comes fresh and in huge pages, pinned memory from a pool of the copier's.
    [[nodiscard]] copier_memory allocate(device d, std::size_t bytes, stream_token on) {
        copier_memory made{d, bytes, on, pinned_};
        if (d.type == device_type::cpu && bytes >= detail::huge_from) fresh_.add(made.data());
        return made;
    }

    /// As `back_end` says. Between GPUs, and from a GPU to pinned or managed memory and back, the copy is queued and
    /// nothing blocks, but for layouts that neither the engines nor `pack` carry, transposed ones between two GPUs that
    /// do not reach each other, say, and where the device has no memory left to rearrange in: they go through the host.
    /// What ordinary memory takes part in is made by the host: the call waits until `on` got so far and returns when it
    /// is done. It never waits for other streams.
    ///
    /// \throws error  errc::foreign_pointer, device, capturing, stream (of another device than both sides, too),
    ///                out_of_memory; what the driver reports;  std::bad_alloc, std::system_error where no thread can be
    ///                had. Then nothing is under way any more, and no slot is lost
    bool copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) {
        if (plan.kind == copy_kind::empty) return true;
        if (to.type == device_type::cpu && from.type == device_type::cpu)
            return host_only.copy(plan, dst, to, src, from, on);
        task t{.on = on, .is_queued = on.names_stream(), .to = to, .from = from};
        if (t.is_queued) detail::require_stream(on, "ferry::cuda::copier");
        t.device_id = t.is_queued ? detail::device_of(on, "ferry::cuda::copier") : detail::device_for(to, from);
        device_guard const current{t.device_id};
        detail::require_side(t.device_id, to, from, "ferry::cuda::copier");  // mutant: cuda_copier_side
        detail::beside_captures const quietly{detail::driver()};             // before a stream is made
        t.stream = t.is_queued ? detail::handle_of(on) : own_stream(t.device_id);
        if (t.is_queued) detail::require_free_default(on, "ferry::cuda::copier");
        detail::require_place(dst, to, "ferry::cuda::copier");
        detail::require_place(src, from, "ferry::cuda::copier");
        // Pinned memory often passes for cpu (R38)
        if (plan.total_bytes >= static_cast<std::int64_t>(detail::staged_fresh_from)) {
            if (to.type == device_type::cpu) t.to = where_is(dst);
            if (from.type == device_type::cpu) t.from = where_is(src);
        }
        bool const reach_each_other = detail::enable_peers(t.to, dst, t.from, src);
        t.facts = facts_of(plan, dst, t, reach_each_other);
        try {
            carry_out(plan, static_cast<std::byte*>(dst), static_cast<std::byte const*>(src), t);
            // The caller may reuse host memory at once, and no copy promises to have read it, least of all when it is
            // pinned.
            // mutant: cuda_copier_host_source, cuda_copier_own_stream
            if (t.is_dirty && (!t.is_queued || from.type == device_type::cpu)) finish(t);
            return !t.is_dirty;  // mutant: cuda_copier_says
        } catch (...) {
            if (t.is_dirty) detail::ignore(cudaStreamSynchronize(t.stream));  // mutant: cuda_copier_failed
            throw;
        }
    }

    void order(stream_token from, stream_token to) { cuda::order(from, to); }
    void wait(stream_token on) { cuda::wait(on); }
    [[nodiscard]] queued_mark mark(stream_token on) { return queued_mark{on}; }

    /// Lanes, as threads, that have started.
    [[nodiscard]] int started_lanes() const { return team_.started(); }
    /// Slots that are pinned, and those of them that are free.
    [[nodiscard]] std::pair<std::size_t, std::size_t> slots() const { return team_.slots().counts(); }
    /// Bytes of the pinned buffers that small copies pass through.
    [[nodiscard]] std::size_t small_pinned() const { return small_.pinned(); }

   private:
    /// One copy, and the stream that it is ordered on.
    struct task {
        stream_token on;
        bool is_queued;  ///< on the caller's stream; else on one of the copier's, which the call waits for
        device to, from;
        cudaStream_t stream = nullptr;
        std::int32_t device_id = 0;  ///< of the stream
        copy_facts facts{};
        bool is_dirty = false;  ///< something of it may be on the stream

        [[nodiscard]] detail::route route() const noexcept {
            return {to.type == device_type::cuda && from.type == device_type::cuda && to.id != from.id, to.id, from.id};
        }
    };

    static void finish(task& t) {
        check(cudaStreamSynchronize(t.stream), "cudaStreamSynchronize");
        t.is_dirty = false;
    }

    [[nodiscard]] copy_facts facts_of(copy_plan const& plan, void const* dst, task const& t, bool reach_each_other) {
        auto const is_here = [&](device d) { return d.type != device_type::cuda || d.id == t.device_id; };
        copy_facts f{};
        f.to = t.to;
        f.from = t.from;
        f.lanes = lanes_;
        f.processors = processors_;
        f.is_here = is_here(t.to) && is_here(t.from);
        f.can_pack = pack_ != nullptr && reach_each_other;  // the stream's device is one of two
        f.dense_dst = detail::is_dense(plan, plan.dst_offset, plan.dst_strides, detail::written(plan));
        f.dense_src = detail::is_dense_source(plan);
        if (t.to.type == device_type::cpu && plan.total_bytes >= static_cast<std::int64_t>(detail::staged_fresh_from))
            f.is_fresh = fresh_.take(dst) || detail::is_untouched(static_cast<std::byte const*>(dst) + plan.dst_offset,
                                                                  static_cast<std::size_t>(plan.total_bytes));
        return f;
    }

    void carry_out(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        switch (choose(plan, t.facts)) {
            case means::nothing:
            case means::host: return;  // dealt with
            case means::plain:
            case means::bounced:
            case means::staged:
                return carry(dst + plan.dst_offset, t.to, src + plan.src_offset, t.from,
                             static_cast<std::size_t>(plan.unit), t);
            case means::batch: {
                auto pieces = detail::pieces_of(plan, dst, src);
                stream_token const on = t.is_queued ? t.on : stream_token{stream_ref{t.stream}};
                t.is_dirty = true;
                if (on.which() != stream_token::kind::legacy_default) return detail::queue(pieces, t.stream);
                stream const beside{t.device_id};
                return detail::queue_on(pieces, on, [&] { return stream_token{beside}; });
            }
            case means::packed: return or_by_host(plan, dst, src, t, [&] { carry_packed(plan, dst, src, t); });
            case means::unpacked: return or_by_host(plan, dst, src, t, [&] { carry_unpacked(plan, dst, src, t); });
            case means::by_host: return carry_by_host(plan, dst, src, t);
            case means::kernel: return rearrange(plan, dst, src, t);
            case means::pitched:
                t.is_dirty = true;
                return detail::copy_pieces(plan, plan.unit, dst, src, t.route(), t.stream);
        }
    }

    /// Bytes in one piece.
    void carry(void* dst, device to, void const* src, device from, std::size_t n, task& t) {
        copy_facts facts = t.facts;
        facts.to = to;
        facts.from = from;
        auto const how = choose_bytes(n, facts);
        if (how == means::bounced && bounce(dst, src, n, t)) return;
        if (how == means::staged) {
            if (t.is_queued || t.is_dirty) finish(t);  // mutant: cuda_copier_lanes_packed, cuda_copier_lanes_stream
            bool const down = to.type == device_type::cpu;
            device const far = down ? from : to;
            detail::staged_job job{};
            prepare(job, dst, src, n, down, t);
            if (far.type == device_type::cuda) job.device_id = far.id;
            return team_.run(job);
        }
        auto const way = to.type == device_type::cuda && from.type == device_type::cuda
                             ? detail::route{to.id != from.id, to.id, from.id}
                             : detail::route{};
        detail::copy_box({}, static_cast<std::int64_t>(n), 0, static_cast<std::byte*>(dst),
                         static_cast<std::byte const*>(src), way, t.stream);
        t.is_dirty = true;
    }

    /// What lanes carry between host and device.
    void prepare(detail::staged_job& job, void* dst, void const* src, std::size_t n, bool to_host,
                 task const& t) const noexcept {
        copy_facts facts = t.facts;
        facts.to = to_host ? cpu : device{device_type::cuda, t.device_id};
        facts.from = to_host ? device{device_type::cuda, t.device_id} : cpu;
        job.dst = static_cast<std::byte*>(dst);
        job.src = static_cast<std::byte const*>(src);
        job.bytes = n;
        job.to_host = to_host;
        job.device_id = t.device_id;
        job.cut = choose_staging(n, facts);
        job.cut.chunk = std::min(job.cut.chunk, slot_bytes_);
    }

    /// Through a pinned buffer, if one is free. What else is on the stream has run then, too.
    [[nodiscard]] bool bounce(void* dst, void const* src, std::size_t n, task& t) {
        auto const buffer = small_.try_take(n);
        if (buffer.data() == nullptr) return false;
        // mutant: cuda_bounce_failed
        detail::drain arrival{t.stream};  // before another copy gets the buffer
        check(cudaMemcpyAsync(buffer.data(), src, n, cudaMemcpyDefault, t.stream), "cudaMemcpyAsync");
        t.is_dirty = true;
        finish(t);  // mutant: cuda_copier_bounce
        arrival.done();
        std::memcpy(dst, buffer.data(), n);
        return true;
    }

    /// A plan within one device.
    void rearrange(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        t.is_dirty = true;
        if (t.facts.can_pack) pack_(plan, dst, src, stream_ref{t.stream});
        else detail::copy_pieces(plan, plan.unit, dst, src, {}, t.stream);
    }

    /// What needs memory of the device, or, where there is none left, the same by the host. What was queued by then
    /// writes nothing else.
    template <class Carry>
    void or_by_host(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t, Carry&& carry) {
        try {
            return carry();
        } catch (error const& e) {
            if (e.code() != errc::out_of_memory) throw;
        }
        carry_by_host(plan, dst, src, t);
    }

    [[nodiscard]] std::int64_t most_of_slab(device near) const noexcept {
        return near.type == device_type::cpu ? slab_bytes_ : std::min(slab_bytes_, std::int64_t{detail::queued_slab});
    }

    /// Made compact on the device, slab by slab, and carried as bytes while the next one is.
    void carry_packed(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        detail::slabs const cut{plan, most_of_slab(t.to), true};
        device const here{device_type::cuda, t.device_id};
        auto const pack = [&](std::int64_t i, std::byte* to) {
            rearrange(detail::with_dst_at_0(cut.part(i)), to, src, t);
        };
        if (cut.count() == 1) {
            detail::temporary const compact{scratch(t.device_id), cut.size(0), t.stream};
            pack(0, compact.data());
            return carry(dst + cut.begin(0), t.to, compact.data(), here, cut.size(0), t);
        }
        detail::slab_line line{scratch(t.device_id), cut.size(0), t.stream};
        if (t.to.type == device_type::cpu)
            return line.down_by_lanes(team_, cut.count(), pack,
                                      [&](std::int64_t i, std::byte* from, detail::staged_job& job) {
                                          prepare(job, dst + cut.begin(i), from, cut.size(i), true, t);
                                      });
        line.down(cut.count(), pack, [&](std::int64_t i, std::byte* from, cudaStream_t s) {
            check(cudaMemcpyAsync(dst + cut.begin(i), from, cut.size(i), cudaMemcpyDefault, s), "cudaMemcpyAsync");
        });
    }

    /// Carried as bytes, slab by slab, and spread out on the device while the next one is.
    void carry_unpacked(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        detail::slabs const cut{plan, most_of_slab(t.from), false};
        device const here{device_type::cuda, t.device_id};
        auto const unpack = [&](std::int64_t i, std::byte* from) {
            rearrange(detail::with_src_at_0(cut.part(i)), dst, from, t);
        };
        // mutant: cuda_copier_unpacked_stream
        t.is_dirty = true;  // the memory is there for work on the stream only
        if (cut.count() == 1) {
            detail::temporary const compact{scratch(t.device_id), cut.size(0), t.stream};
            carry(compact.data(), here, src + cut.begin(0), t.from, cut.size(0), t);
            return unpack(0, compact.data());
        }
        detail::slab_line line{scratch(t.device_id), cut.size(0), t.stream};
        if (t.from.type == device_type::cpu)
            return line.up_by_lanes(
                team_, cut.count(),
                [&](std::int64_t i, std::byte* to, detail::staged_job& job) {
                    prepare(job, to, src + cut.begin(i), cut.size(i), false, t);
                },
                unpack);
        line.up(
            cut.count(),
            [&](std::int64_t i, std::byte* to, cudaStream_t s) {
                check(cudaMemcpyAsync(to, src + cut.begin(i), cut.size(i), cudaMemcpyDefault, s), "cudaMemcpyAsync");
            },
            unpack);
    }

    /// Rearranged by the host, which has one side of it already when the other is dense; blocks.
    void carry_by_host(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        bool const down = t.from.type == device_type::cuda && t.to.type != device_type::cuda && t.facts.dense_src;
        bool const up = t.to.type == device_type::cuda && t.from.type != device_type::cuda && t.facts.dense_dst;
        if (!down && !up) {
            t.is_dirty = true;
            detail::transfer(plan, dst, t.to, src, t.from, t.device_id, t.stream);
            return;
        }
        auto const part = down ? detail::reach(plan, plan.src_offset, plan.src_strides, plan.unit)
                               : detail::reach(plan, plan.dst_offset, plan.dst_strides, detail::written(plan));
        auto const bytes = static_cast<std::size_t>(part.size);
        buffer<fresh_host_space> const near{bytes};
        // mutant: cuda_copier_by_host_failed
        detail::drain travel{t.stream};  // before it goes
        auto* const origin = static_cast<std::byte*>(near.data()) - part.begin;
        t.facts.is_fresh = true;
        if (down) carry(near.data(), cpu, src + part.begin, t.from, bytes, t);
        // mutant: cuda_copier_by_host_before
        if (t.is_queued || t.is_dirty) finish(t);  // also what the stream still does with the near side
        if (down) {
            travel.done();
            return copy_on_host(plan, dst, origin);
        }
        copy_on_host(plan, origin, src);
        carry(dst + part.begin, t.to, near.data(), cpu, bytes, t);
        // mutant: cuda_copier_by_host_after
        if (t.is_dirty) finish(t);  // the memory dies here
        travel.done();
    }

    /// For copies that name no stream. They may wait for each other, and for nothing else.
    [[nodiscard]] cudaStream_t own_stream(std::int32_t device_id) {
        std::lock_guard const lock{mutex_};
        for (auto const& [id, s] : streams_)
            if (id == device_id) return s.get();
        return streams_.emplace_back(device_id, stream{device_id}).second.get();
    }
    /// What is rearranged lies there meanwhile. The default pool would give its memory back at each wait, and to get it
    /// again costs more than a small copy.
    [[nodiscard]] pool const& scratch(std::int32_t device_id) {
        std::lock_guard const lock{mutex_};
        for (auto const& p : scratch_)
            if (p.device_id() == device_id) return p;
        auto const kept = std::max(2 * static_cast<std::uint64_t>(slab_bytes_), std::uint64_t{detail::pool_step});
        return scratch_.emplace_back(device_id, pool::sharing::none, kept);
    }

    pack_function pack_;
    int processors_, lanes_;
    std::size_t slot_bytes_;
    std::int64_t slab_bytes_;
    std::mutex mutex_;
    std::list<std::pair<std::int32_t, stream>> streams_;
    std::list<pool> scratch_;
    detail::fresh_notes fresh_;
    detail::lane_team team_;
    pinned_pool pinned_;
    detail::small_buffers small_;
};

}  // namespace ferry::inline v0::cuda
