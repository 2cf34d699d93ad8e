// The CUDA functions of minitensor. Built without CUDA, there are no devices, and the other functions throw.
#pragma once

#include <minitensor/device.hpp>
#include <minitensor/stream.hpp>

#include <cstddef>
#include <memory>

namespace mt::cuda {

/// Number of devices; 0 without a driver.
[[nodiscard]] int device_count() noexcept;

/// \throws buffer_error  there is no driver, or no such device
void require(device);

/// Memory of a CUDA kind, which any stream may use at once. \throws std::bad_alloc, buffer_error
[[nodiscard]] void* allocate(std::size_t bytes, device);
/// Frees it; device memory after the work queued on `last`.
void deallocate(void*, device, stream const& last) noexcept;

/// The device of a stream's handle.
[[nodiscard]] std::int32_t device_of(std::uintptr_t stream_handle);

/// Work queued on `later` after this call waits for the work queued on `earlier`.
void order(stream const& earlier, stream const& later);
void wait(stream const&);
void synchronize(std::int32_t device_id);

/// Records a point in a stream; whether the stream has reached it.
[[nodiscard]] std::shared_ptr<void> mark(stream const&);
[[nodiscard]] bool passed(void* mark) noexcept;

/// Queued on the stream; blocks only for copies from or to pageable host memory.
void copy(void* to, void const* from, std::size_t bytes, stream const&);
void set(void* to, unsigned char value, std::size_t bytes, stream const&);

/// Rows of `width` bytes, in slices of `rows`. In the destination rows are `pitch` bytes apart and slices `slice` rows; the source
/// is compact.
struct box {
    std::size_t width, rows, slices;
    std::size_t pitch, slice;
};
inline constexpr std::size_t most_pitch = 0x7fffffff;
/// Queues a copy within memory of GPUs. `pitch` is between `width` and `most_pitch`, `slice` no less than `rows`.
void spread(void* to, void const* from, box const&, stream const&);

/// Queues a copy of host memory, which may be reused at once. Blocks only when much is on its way already.
void upload(void* to, void const* from, std::size_t bytes, stream const&);

}  // namespace mt::cuda
