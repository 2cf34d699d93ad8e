// ferry: pipelines the slabs of a strided copy between host and device, so that packing and transfer overlap.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/detail/memory/temporary.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda::detail {

/// Two packed buffers on the current device, which must be the device of the stream `on`. Slabs are packed or unpacked
/// on `on`, and transferred on a separate stream, so that both can overlap. Slab i uses buffer i % 2.
///
/// After a call has returned, only work on `on`, and work that it waits for, uses the buffers. When a call throws, the
/// destructor waits for the transfers.
class slab_pipeline {
   public:
    slab_pipeline(pool const& from, std::size_t slab_bytes, cudaStream_t on)
        : on_{on}, first_{from, slab_bytes, on}, second_{from, slab_bytes, on}, transfer_stream_{from.device_id()} {}
    slab_pipeline(slab_pipeline const&) = delete;
    slab_pipeline& operator=(slab_pipeline const&) = delete;
    ~slab_pipeline() {
        if (is_transferring_) ignore(cudaStreamSynchronize(transfer_stream_.get()));  // before the buffers are freed
    }

    /// Queues the transfer of `count` slabs to the host. `pack(i, buffer)` queues the packing of slab i on `on`;
    /// `copy(i, buffer, stream)` queues its copy.
    template <class Pack, class Copy>
    void to_host(std::int64_t count, Pack&& pack, Copy&& copy) {
        for (std::int64_t i = 0; i < count; ++i) {
            int const k = static_cast<int>(i % 2);
            if (i >= 2) enqueue_wait(on_, empty_[k]);
            pack(i, buffer(k));
            full_[k].record(on_);
            start_transfer_after(full_[k]);
            copy(i, buffer(k), transfer_stream_.get());
            empty_[k].record(transfer_stream_.get());
        }
        enqueue_wait(on_, empty_[(count - 1) % 2]);
        is_transferring_ = false;
    }
    /// Queues the transfer of `count` slabs to the device. `copy(i, buffer, stream)` queues the copy of slab i;
    /// `unpack(i, buffer)` queues its unpacking on `on`.
    template <class Copy, class Unpack>
    void to_device(std::int64_t count, Copy&& copy, Unpack&& unpack) {
        empty_[0].record(on_);
        start_transfer_after(empty_[0]);  // buffers and source are ready in the order of `on`
        for (std::int64_t i = 0; i < count; ++i) {
            int const k = static_cast<int>(i % 2);
            if (i >= 2) enqueue_wait(transfer_stream_.get(), empty_[k]);
            copy(i, buffer(k), transfer_stream_.get());
            full_[k].record(transfer_stream_.get());
            enqueue_wait(on_, full_[k]);
            unpack(i, buffer(k));
            empty_[k].record(on_);
        }
        is_transferring_ = false;
    }

    /// Returns the stream of the transfers.
    [[nodiscard]] cudaStream_t transfer_stream() const noexcept { return transfer_stream_.get(); }

   private:
    [[nodiscard]] std::byte* buffer(int k) const noexcept { return (k == 0 ? first_ : second_).data(); }
    static void enqueue_wait(cudaStream_t s, event const& e) {
        check(cudaStreamWaitEvent(s, e.get(), 0), "cudaStreamWaitEvent");
    }
    void start_transfer_after(event const& behind) {
        is_transferring_ = true;
        enqueue_wait(transfer_stream_.get(), behind);
    }

    cudaStream_t on_;
    temporary first_, second_;
    event full_[2], empty_[2];
    stream transfer_stream_;
    bool is_transferring_ = false;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
