// ferry: the engine of cuda/copier.hpp.
#pragma once

#include <ferry/cuda/copier.hpp>

#include <ferry/base/error.hpp>
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/copies/lanes.hpp>
#include <ferry/cuda/detail/copies/pieces.hpp>
#include <ferry/cuda/detail/copies/slab_pipeline.hpp>
#include <ferry/cuda/detail/copies/staged.hpp>
#include <ferry/cuda/detail/copies/strided.hpp>
#include <ferry/cuda/detail/copies/transfer.hpp>
#include <ferry/cuda/detail/events/drain.hpp>
#include <ferry/cuda/detail/memory/temporary.hpp>
#include <ferry/cuda/detail/peers.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/host_copy.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// The state of a copier, and the methods by which it copies.
class copier_engine {
   public:
    explicit copier_engine(copier_options const& options)
        : pack_{options.pack},
          lanes_{options.lanes > 0 ? options.lanes
                                   : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 12)},
          slab_bytes_{static_cast<std::int64_t>(std::clamp(options.slab_bytes, std::size_t{4096}, most_slab))},
          team_{lanes_},
          staging{options.most_pinned},
          pinned{options.most_kept},
          host{options.most_host_kept, staged_from} {}
    ~copier_engine() { host.close(); }

    bool copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) {
        if (plan.kind == copy_kind::empty) return true;
        if (to.type == device_type::cpu && from.type == device_type::cpu)
            return host_only.copy(plan, dst, to, src, from, on);
        task t{.on = on, .is_queued = on.names_stream(), .to = to, .from = from};
        if (t.is_queued) require_stream(on, "ferry::cuda::copier");
        t.device_id = t.is_queued ? device_of(on, "ferry::cuda::copier") : device_for(to, from);
        device_guard const current{t.device_id};
        require_participating_stream(t.device_id, to, from, "ferry::cuda::copier");
        relaxed_capture_mode const relaxed{driver()};  // before a stream is created
        t.stream = t.is_queued ? handle_of(on) : own_stream(t.device_id);
        if (t.is_queued) require_uncaptured_default(on, "ferry::cuda::copier");
        require_memory_on(dst, to, "ferry::cuda::copier");
        require_memory_on(src, from, "ferry::cuda::copier");
        // Pinned memory is often described as cpu (R38).
        if (plan.total_bytes >= static_cast<std::int64_t>(examined_from)) {
            if (to.type == device_type::cpu) t.to = device_of_pointer(dst);
            if (from.type == device_type::cpu) t.from = device_of_pointer(src);
        }
        bool const reach_each_other = enable_peers(t.to, dst, t.from, src);
        t.facts = facts_of(plan, dst, t, reach_each_other);
        try {
            execute(plan, static_cast<std::byte*>(dst), static_cast<std::byte const*>(src), t);
            // The caller may reuse host memory when the call returns, but an asynchronous copy may not have read it
            // yet, in particular if the memory is pinned.
            if (t.has_queued_work && (!t.is_queued || from.type == device_type::cpu)) finish(t);
            return !t.has_queued_work;
        } catch (...) {
            if (t.has_queued_work) ignore(cudaStreamSynchronize(t.stream));
            throw;
        }
    }

    [[nodiscard]] int started_lanes() const { return team_.started(); }

   private:
    /// One copy and its stream.
    struct task {
        stream_token on;
        bool is_queued;  ///< whether it is on the caller's stream; otherwise the call waits for a stream of the copier
        device to, from;
        cudaStream_t stream = nullptr;
        std::int32_t device_id = 0;  ///< device of the stream
        copy_facts facts{};
        bool has_queued_work = false;  ///< work of this copy may be pending on the stream

        [[nodiscard]] detail::route route() const noexcept {
            return {to.type == device_type::cuda && from.type == device_type::cuda && to.id != from.id, to.id, from.id};
        }
    };

    static void finish(task& t) {
        check(cudaStreamSynchronize(t.stream), "cudaStreamSynchronize");
        t.has_queued_work = false;
    }

    [[nodiscard]] copy_facts facts_of(copy_plan const& plan, void const* dst, task const& t, bool reach_each_other) {
        auto const is_here = [&](device d) { return d.type != device_type::cuda || d.id == t.device_id; };
        copy_facts f{};
        f.to = t.to;
        f.from = t.from;
        f.lanes = lanes_;
        f.is_here = is_here(t.to) && is_here(t.from);
        f.can_pack = pack_ != nullptr && reach_each_other;  // the stream belongs to one of the two devices
        f.dense_dst = is_dense(plan, plan.dst_offset, plan.dst_strides, written(plan));
        f.dense_src = is_dense_source(plan);
        if (t.to.type == device_type::cpu && plan.total_bytes >= static_cast<std::int64_t>(examined_from))
            f.is_fresh = is_untouched(static_cast<std::byte const*>(dst) + plan.dst_offset,
                                      static_cast<std::size_t>(plan.total_bytes));
        return f;
    }

    void execute(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        switch (choose(plan, t.facts)) {
            case copy_method::nothing:
            case copy_method::host: return;  // handled by copy()
            case copy_method::plain:
            case copy_method::bounced:
            case copy_method::staged:
                return copy_bytes(dst + plan.dst_offset, t.to, src + plan.src_offset, t.from,
                                  static_cast<std::size_t>(plan.unit), t);
            case copy_method::batch: {
                auto pieces = pieces_of(plan, dst, src);
                t.has_queued_work = true;
                return queue_on(pieces, t.is_queued ? t.on : stream_token{stream_ref{t.stream}}, t.device_id);
            }
            case copy_method::packed:
                return with_host_fallback(plan, dst, src, t, [&] { copy_packed(plan, dst, src, t); });
            case copy_method::unpacked:
                return with_host_fallback(plan, dst, src, t, [&] { copy_unpacked(plan, dst, src, t); });
            case copy_method::by_host: return copy_by_host(plan, dst, src, t);
            case copy_method::kernel: return rearrange(plan, dst, src, t);
            case copy_method::pitched:
                t.has_queued_work = true;
                return copy_pieces(plan, plan.unit, dst, src, t.route(), t.stream);
        }
    }

    /// Copies one contiguous block.
    void copy_bytes(void* dst, device to, void const* src, device from, std::size_t n, task& t) {
        copy_facts facts = t.facts;
        facts.to = to;
        facts.from = from;
        auto const how = choose_bytes(n, facts);
        if (how == copy_method::bounced && bounce(dst, src, n, t)) return;
        if (how == copy_method::staged) {
            auto transfer = stage(n, to.type == device_type::cpu, t, t.stream);
            if (transfer.is_ready()) {
                transfer.send(static_cast<std::byte*>(dst), static_cast<std::byte const*>(src), n);
                transfer.finish();
                t.has_queued_work = false;
                return;
            }
        }
        auto const way = to.type == device_type::cuda && from.type == device_type::cuda
                             ? route{to.id != from.id, to.id, from.id}
                             : route{};
        copy_box({}, static_cast<std::int64_t>(n), 0, static_cast<std::byte*>(dst), static_cast<std::byte const*>(src),
                 way, t.stream);
        t.has_queued_work = true;
    }

    /// Prepares a transfer through pinned slots. For one to the device, waits for the work queued before, which may
    /// write the source that the host reads.
    [[nodiscard]] staged stage(std::size_t n, bool to_host, task& t, cudaStream_t s) {
        if (!to_host && t.is_queued) finish(t);
        copy_facts facts = t.facts;
        facts.to = to_host ? cpu : device{device_type::cuda, t.device_id};
        facts.from = to_host ? device{device_type::cuda, t.device_id} : cpu;
        return {team_, staging, choose_staging(n, facts), n, to_host, t.device_id, s};
    }

    /// Copies through a pinned bounce buffer and waits for all work on the stream. Returns false when no buffer is
    /// free.
    [[nodiscard]] bool bounce(void* dst, void const* src, std::size_t n, task& t) {
        auto const buffer = staging.lend(std::max(n, std::size_t{64} << 10), n);
        if (buffer == nullptr) return false;
        drain arrival{t.stream};  // before another copy takes the buffer
        check(cudaMemcpyAsync(buffer.get(), src, n, cudaMemcpyDefault, t.stream), "cudaMemcpyAsync");
        t.has_queued_work = true;
        finish(t);
        arrival.done();
        std::memcpy(dst, buffer.get(), n);
        return true;
    }

    /// Executes a plan within one device.
    void rearrange(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        t.has_queued_work = true;
        if (t.facts.can_pack) pack_(plan, dst, src, stream_ref{t.stream});
        else copy_pieces(plan, plan.unit, dst, src, {}, t.stream);
    }

    /// Calls `copy`, which allocates device memory; when that allocation fails, copies through the host instead. Work
    /// that `copy` queued before the failure writes only temporary memory.
    template <class Copy>
    void with_host_fallback(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t, Copy&& copy) {
        try {
            return copy();
        } catch (error const& e) {
            if (e.code() != errc::out_of_memory) throw;
        }
        copy_by_host(plan, dst, src, t);
    }

    /// Packs on the device, slab by slab, and copies each slab as bytes while the next one is packed.
    void copy_packed(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        slabs const cut{plan, slab_bytes_, true};
        device const here{device_type::cuda, t.device_id};
        auto const pack = [&](std::int64_t i, std::byte* to) { rearrange(with_dst_at_0(cut.part(i)), to, src, t); };
        if (cut.count() == 1) {
            temporary const compact{scratch(t.device_id), cut.size(0), t.stream};
            pack(0, compact.data());
            return copy_bytes(dst + cut.begin(0), t.to, compact.data(), here, cut.size(0), t);
        }
        slab_pipeline pipeline{scratch(t.device_id), cut.size(0), t.stream};
        if (t.to.type == device_type::cpu) {
            auto transfer = stage(static_cast<std::size_t>(plan.total_bytes), true, t, pipeline.transfer_stream());
            if (transfer.is_ready()) {
                pipeline.to_host(cut.count(), pack, [&](std::int64_t i, std::byte* from, cudaStream_t) {
                    transfer.send(dst + cut.begin(i), from, cut.size(i));
                });
                transfer.finish();
                t.has_queued_work = false;
                return;
            }
        }
        pipeline.to_host(cut.count(), pack, [&](std::int64_t i, std::byte* from, cudaStream_t s) {
            check(cudaMemcpyAsync(dst + cut.begin(i), from, cut.size(i), cudaMemcpyDefault, s), "cudaMemcpyAsync");
        });
    }

    /// Copies slabs as bytes, and unpacks each one on the device while the next one is copied.
    void copy_unpacked(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        slabs const cut{plan, slab_bytes_, false};
        device const here{device_type::cuda, t.device_id};
        auto const unpack = [&](std::int64_t i, std::byte* from) {
            rearrange(with_src_at_0(cut.part(i)), dst, from, t);
        };
        t.has_queued_work = true;  // the temporary memory is allocated in stream order
        if (cut.count() == 1) {
            temporary const compact{scratch(t.device_id), cut.size(0), t.stream};
            copy_bytes(compact.data(), here, src + cut.begin(0), t.from, cut.size(0), t);
            return unpack(0, compact.data());
        }
        slab_pipeline pipeline{scratch(t.device_id), cut.size(0), t.stream};
        if (t.from.type == device_type::cpu) {
            auto transfer = stage(static_cast<std::size_t>(plan.total_bytes), false, t, pipeline.transfer_stream());
            if (transfer.is_ready()) {
                pipeline.to_device(
                    cut.count(),
                    [&](std::int64_t i, std::byte* to, cudaStream_t) {
                        transfer.send(to, src + cut.begin(i), cut.size(i));
                    },
                    unpack);
                return transfer.finish();
            }
        }
        pipeline.to_device(
            cut.count(),
            [&](std::int64_t i, std::byte* to, cudaStream_t s) {
                check(cudaMemcpyAsync(to, src + cut.begin(i), cut.size(i), cudaMemcpyDefault, s), "cudaMemcpyAsync");
            },
            unpack);
    }

    /// Rearranges the elements on the host. When one side is host memory and the device side is dense, only the device
    /// side is copied to or from a temporary buffer. Blocks.
    void copy_by_host(copy_plan const& plan, std::byte* dst, std::byte const* src, task& t) {
        bool const down = t.from.type == device_type::cuda && t.to.type != device_type::cuda && t.facts.dense_src;
        bool const up = t.to.type == device_type::cuda && t.from.type != device_type::cuda && t.facts.dense_dst;
        if (!down && !up) {
            t.has_queued_work = true;
            transfer(plan, dst, t.to, src, t.from, t.device_id, t.stream);
            return;
        }
        auto const part = down ? reach(plan, plan.src_offset, plan.src_strides, plan.unit)
                               : reach(plan, plan.dst_offset, plan.dst_strides, written(plan));
        auto const bytes = static_cast<std::size_t>(part.size);
        buffer<fresh_host_space> const near{bytes};
        drain travel{t.stream};  // before the buffer is freed
        auto* const origin = static_cast<std::byte*>(near.data()) - part.begin;
        t.facts.is_fresh = true;
        if (down) copy_bytes(near.data(), cpu, src + part.begin, t.from, bytes, t);
        if (t.is_queued || t.has_queued_work) finish(t);  // the stream may still use the host side
        if (down) {
            travel.done();
            return copy_on_host(plan, dst, origin);
        }
        copy_on_host(plan, origin, src);
        copy_bytes(dst + part.begin, t.to, near.data(), cpu, bytes, t);
        if (t.has_queued_work) finish(t);  // the buffer is freed here
        travel.done();
    }

    /// Returns the copier's stream on a device, for copies without a stream. Copies on it run one after another.
    [[nodiscard]] cudaStream_t own_stream(std::int32_t device_id) {
        std::lock_guard const lock{mutex_};
        for (auto const& [id, s] : streams_)
            if (id == device_id) return s.get();
        return streams_.emplace_back(device_id, stream{device_id}).second.get();
    }
    /// Returns the memory pool for packed slabs. CUDA's default pool would release its memory at each synchronisation,
    /// and allocating it again costs more than a small copy.
    [[nodiscard]] pool const& scratch(std::int32_t device_id) {
        std::lock_guard const lock{mutex_};
        for (auto const& p : scratch_)
            if (p.device_id() == device_id) return p;
        auto const kept = std::max(2 * static_cast<std::uint64_t>(slab_bytes_), std::uint64_t{pool_step});
        return scratch_.emplace_back(device_id, pool::sharing::none, kept);
    }

    pack_function pack_;
    int lanes_;
    std::int64_t slab_bytes_;
    std::mutex mutex_;
    std::list<std::pair<std::int32_t, stream>> streams_;
    std::list<pool> scratch_;
    lane_team team_;

   public:
    recycled<pinned_space> staging, pinned;
    recycled<fresh_host_space> host;
};

}  // namespace detail

FERRY_INLINE copier::copier(copier_options const& options)
    : engine_{std::make_unique<detail::copier_engine>(options)} {}
FERRY_INLINE copier::~copier() = default;
FERRY_INLINE copier_memory copier::allocate(device d, std::size_t bytes, stream_token on) {
    return {d, bytes, on, engine_->pinned, engine_->host};
}
FERRY_INLINE bool copier::copy(copy_plan const& plan, void* dst, device to, void const* src, device from,
                               stream_token on) {
    return engine_->copy(plan, dst, to, src, from, on);
}
FERRY_INLINE int copier::started_lanes() const { return engine_->started_lanes(); }
FERRY_INLINE std::pair<std::size_t, std::size_t> copier::pinned() const {
    return {engine_->staging.size(), engine_->staging.kept()};
}
FERRY_INLINE std::size_t copier::host_kept() const { return engine_->host.kept(); }

}  // namespace FERRY_NAMESPACE::cuda
