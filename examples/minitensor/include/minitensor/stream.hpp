// minitensor: CUDA streams.
#pragma once

#include <minitensor/device.hpp>

#include <cstdint>
#include <memory>
#include <mutex>

namespace mt {

/// A CUDA stream of a device. The handle is 1 for the legacy default stream, 2 for the per-thread default stream, or a
/// cudaStream_t; 0 means no stream, for example if there is no GPU.
struct stream {
    std::uintptr_t handle = 0;
    std::int32_t device = 0;
    std::shared_ptr<void const> owner{};  ///< keeps the stream alive; may be null

    [[nodiscard]] bool is_default() const noexcept { return handle == 1 || handle == 2; }
    friend bool operator==(stream const& a, stream const& b) noexcept {
        return a.handle == b.handle && (a.device == b.device || !a.is_default());
    }
};

/// Returns whether this build can use a GPU.
[[nodiscard]] bool cuda_available() noexcept;
/// Returns the number of GPUs.
[[nodiscard]] int device_count() noexcept;

/// Blocks until all work on a GPU is done. \throws buffer_error if there is no such GPU
void synchronize(std::int32_t device_id);

/// Returns the current stream of this thread for a device: the innermost entered stream of the device, or its legacy
/// default stream.
[[nodiscard]] stream current_stream(device);

/// Makes a stream the current stream of this thread until `leave_stream`. \throws buffer_error  there is no GPU
void enter_stream(std::uintptr_t handle, std::shared_ptr<void const> owner);
void leave_stream() noexcept;

/// The stream of the last work on a block of memory, for all tensors that share it. Thread-safe.
class timeline {
   public:
    explicit timeline(stream first) : last_{std::move(first)} {}

    [[nodiscard]] stream last() const;
    /// Returns whether minitensor has queued any work on the memory.
    [[nodiscard]] bool used() const;
    /// Makes `next` the last stream: its work runs after all work queued on the previous one.
    void continue_on(stream const& next);
    /// Blocks until the work queued on the last stream is done.
    void wait() const;

   private:
    mutable std::mutex mutex_;
    stream last_;
    bool used_ = false;
};

/// Releases the owner of imported memory after the work that minitensor has queued on the memory: immediately if the
/// work is done, otherwise in a later call of minitensor.
void release_when_done(timeline const&, std::shared_ptr<void const> owner) noexcept;
/// Releases the owners whose work is done.
void release_what_is_done() noexcept;

}  // namespace mt
