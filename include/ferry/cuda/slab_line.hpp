// ferry: slabs of a strided copy on their way between host and device: one is rearranged while another travels.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/lanes.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/staged.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/temporary.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

namespace ferry::inline v0::cuda::detail {

/// Two compact buffers on the current device, which is that of the stream `on`. Slabs are rearranged on `on` and travel
/// on a stream that is made for them, or by lanes, so that no copy waits for another's. Slab i passes through buffer i
/// % 2.
///
/// Work on the buffers is under way only between the begin and the end of a call, but for what is queued on `on` and
/// what that waits for: when a call throws, nothing of it travels any more once the object is gone.
class slab_line {
   public:
    slab_line(pool const& from, std::size_t slab_bytes, cudaStream_t on)
        : on_{on}, first_{from, slab_bytes, on}, second_{from, slab_bytes, on}, road_{from.device_id()} {}
    slab_line(slab_line const&) = delete;
    slab_line& operator=(slab_line const&) = delete;
    ~slab_line() {
        // mutant: cuda_slabs_unwind
        if (is_travelling_) ignore(cudaStreamSynchronize(road_.get()));  // before the buffers go
    }

    /// Device → host, queued: `pack(i, buffer)` on `on`, `carry(i, buffer, stream)`.
    template <class Pack, class Carry>
    void down(std::int64_t count, Pack&& pack, Carry&& carry) {
        for (std::int64_t i = 0; i < count; ++i) {
            int const k = static_cast<int>(i % 2);
            if (i >= 2) make_wait(on_, empty_[k]);  // mutant: cuda_slabs_down_reuse
            pack(i, buffer(k));
            full_[k].record(on_);
            set_out(full_[k]);  // mutant: cuda_slabs_down_ready
            carry(i, buffer(k), road_.get());
            empty_[k].record(road_.get());
        }
        make_wait(on_, empty_[(count - 1) % 2]);  // mutant: cuda_slabs_down_end
        is_travelling_ = false;
    }
    /// Host → device, queued: `carry(i, buffer, stream)`, `unpack(i, buffer)` on `on`.
    template <class Carry, class Unpack>
    void up(std::int64_t count, Carry&& carry, Unpack&& unpack) {
        empty_[0].record(on_);
        // mutant: cuda_slabs_up_begin
        set_out(empty_[0]);  // the buffers, and the source, are there for work behind `on` only
        for (std::int64_t i = 0; i < count; ++i) {
            int const k = static_cast<int>(i % 2);
            if (i >= 2) make_wait(road_.get(), empty_[k]);  // mutant: cuda_slabs_up_reuse
            carry(i, buffer(k), road_.get());
            full_[k].record(road_.get());
            make_wait(on_, full_[k]);  // mutant: cuda_slabs_up_ready
            unpack(i, buffer(k));
            empty_[k].record(on_);
        }
        is_travelling_ = false;
    }

    /// Device → host by lanes: `pack(i, buffer)` on `on`; `prepare(i, buffer, job)` says what travels. Blocks until it
    /// is done.
    template <class Pack, class Prepare>
    void down_by_lanes(lane_team& team, std::int64_t count, Pack&& pack, Prepare&& prepare) {
        two_jobs jobs{team};
        auto const begin = [&](std::int64_t i) {
            int const k = static_cast<int>(i % 2);
            pack(i, buffer(k));
            full_[k].record(on_);
            full_[k].wait();  // mutant: cuda_slabs_lanes_ready
            prepare(i, buffer(k), jobs.renew(k));
            jobs.start(k);
        };
        begin(0);
        for (std::int64_t i = 0; i < count; ++i) {
            if (i + 1 < count) begin(i + 1);
            jobs.finish(static_cast<int>(i % 2));
        }
    }
    /// Host → device by lanes. Blocks until all has arrived; the last `unpack`s are queued on `on` then.
    template <class Prepare, class Unpack>
    void up_by_lanes(lane_team& team, std::int64_t count, Prepare&& prepare, Unpack&& unpack) {
        two_jobs jobs{team};
        auto const begin = [&](std::int64_t i) {
            int const k = static_cast<int>(i % 2);
            empty_[k].wait();  // mutant: cuda_slabs_lanes_reuse
            prepare(i, buffer(k), jobs.renew(k));
            jobs.start(k);
        };
        for (auto& e : empty_) e.record(on_);
        begin(0);
        for (std::int64_t i = 0; i < count; ++i) {
            int const k = static_cast<int>(i % 2);
            if (i + 1 < count) begin(i + 1);
            jobs.finish(k);
            unpack(i, buffer(k));
            empty_[k].record(on_);
        }
    }

   private:
    /// A job for each buffer. None of them is under way any more when it dies.
    class two_jobs {
       public:
        explicit two_jobs(lane_team& team) noexcept : team_{team} {}
        two_jobs(two_jobs const&) = delete;
        two_jobs& operator=(two_jobs const&) = delete;
        ~two_jobs() {
            for (int k = 0; k < 2; ++k) {
                if (!is_started_[k]) continue;
                jobs_[k].cancel();
                static_cast<void>(team_.await(jobs_[k]));  // mutant: cuda_slabs_lanes_unwind
            }
        }
        [[nodiscard]] staged_job& renew(int k) noexcept {
            jobs_[k].next = 0;
            jobs_[k].joined = 0;
            return jobs_[k];
        }
        void start(int k) {
            team_.start(jobs_[k]);
            is_started_[k] = true;
        }
        void finish(int k) {
            is_started_[k] = false;
            if (auto const failure = team_.await(jobs_[k])) std::rethrow_exception(failure);
        }

       private:
        lane_team& team_;
        staged_job jobs_[2]{};
        bool is_started_[2]{};
    };

    [[nodiscard]] std::byte* buffer(int k) const noexcept { return (k == 0 ? first_ : second_).data(); }
    static void make_wait(cudaStream_t s, event const& e) {
        check(cudaStreamWaitEvent(s, e.get(), 0), "cudaStreamWaitEvent");
    }
    void set_out(event const& behind) {
        is_travelling_ = true;
        make_wait(road_.get(), behind);
    }

    cudaStream_t on_;
    temporary first_, second_;
    event full_[2], empty_[2];
    stream road_;
    bool is_travelling_ = false;
};

}  // namespace ferry::inline v0::cuda::detail
