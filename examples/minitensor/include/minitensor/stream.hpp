// minitensor: CUDA streams.
#pragma once

#include <minitensor/device.hpp>

#include <cstdint>
#include <memory>
#include <mutex>

namespace mt {

/// A CUDA stream of a device. The handle is 1 for the legacy default stream, 2 for the per-thread default
/// stream, otherwise a cudaStream_t; 0 means no stream, if there is no GPU.
struct stream {
    std::uintptr_t handle = 0;
    std::int32_t device = 0;
    std::shared_ptr<void const> owner{};  ///< keeps the stream alive; may be null

    [[nodiscard]] bool is_default() const noexcept { return handle == 1 || handle == 2; }
    friend bool operator==(stream const& a, stream const& b) noexcept {
        return a.handle == b.handle && (a.device == b.device || !a.is_default());
    }
};

/// Whether there is a GPU that this build can use, and the number of GPUs.
[[nodiscard]] bool cuda_available() noexcept;
[[nodiscard]] int device_count() noexcept;

/// Blocks until all work on a GPU is done.
///
/// \throws buffer_error  no such GPU
void synchronize(std::int32_t device_id);

/// Returns the stream on which this thread queues work on memory of the device: the innermost entered
/// stream of that device, or the legacy default stream of the device.
[[nodiscard]] stream current_stream(device);

/// Makes a stream current for this thread until leave_stream() is called.
///
/// \throws buffer_error  there is no GPU
void enter_stream(std::uintptr_t handle, std::shared_ptr<void const> owner);
void leave_stream() noexcept;

/// The stream that used some memory last, for all tensors that share the memory. Thread-safe.
class timeline {
   public:
    explicit timeline(stream first) : last_{std::move(first)} {}

    [[nodiscard]] stream last() const;
    /// Whether minitensor has queued any work on the memory.
    [[nodiscard]] bool used() const;
    /// Orders `next` after the work that is queued on the last stream, and makes it the last stream.
    void continue_on(stream const& next);
    /// Blocks until the work that is now queued on the last stream is done.
    void wait() const;

   private:
    mutable std::mutex mutex_;
    stream last_;
    bool used_ = false;
};

/// Releases the owner of imported memory when the work that minitensor has queued on it is done: at once
/// if it is done already, otherwise in a later call of minitensor.
void release_when_done(timeline const&, std::shared_ptr<void const> owner) noexcept;
void release_what_is_done() noexcept;

}  // namespace mt
