// minitensor: CUDA streams.
#pragma once

#include <minitensor/device.hpp>

#include <cstdint>
#include <memory>
#include <mutex>

namespace mt {

/// A CUDA stream of a device. Numbered as CUDA does: 1 is the legacy default stream, 2 the per-thread
/// one, anything else a cudaStream_t; 0 means none, where there is no GPU to work on.
struct stream {
    std::uintptr_t handle = 0;
    std::int32_t device = 0;
    std::shared_ptr<void const> owner{};  ///< keeps the stream alive; may be null

    [[nodiscard]] bool is_default() const noexcept { return handle == 1 || handle == 2; }
    friend bool operator==(stream const& a, stream const& b) noexcept {
        return a.handle == b.handle && (a.device == b.device || !a.is_default());
    }
};

/// Whether there is a GPU that this build can use; the number of GPUs.
[[nodiscard]] bool cuda_available() noexcept;
[[nodiscard]] int device_count() noexcept;

/// Blocks until all work on a GPU is done. \throws buffer_error if there is no such GPU
void synchronize(std::int32_t device_id);

/// The current stream of this thread for a device: the innermost entered stream of the device, or its
/// legacy default stream.
[[nodiscard]] stream current_stream(device);

/// Makes a stream the current one of this thread until `leave_stream`. \throws buffer_error  there is no GPU
void enter_stream(std::uintptr_t handle, std::shared_ptr<void const> owner);
void leave_stream() noexcept;

/// The stream of the last work on a memory, for all tensors that share it. Thread-safe.
class timeline {
   public:
    explicit timeline(stream first) : last_{std::move(first)} {}

    [[nodiscard]] stream last() const;
    /// Whether minitensor has queued any work on the memory.
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

/// Drops the owner of imported memory after the work that minitensor has queued on it: immediately if it
/// is done, otherwise in a later call of minitensor.
void release_when_done(timeline const&, std::shared_ptr<void const> owner) noexcept;
void release_what_is_done() noexcept;

}  // namespace mt
