// The CUDA functions that minitensor uses. In a build without CUDA there is no device, and the other functions throw.
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

/// Allocates CUDA memory, which any stream may use at once. \throws std::bad_alloc, buffer_error
[[nodiscard]] void* allocate(std::size_t bytes, device);
/// Frees the memory; device memory after the work that is queued on `last`.
void deallocate(void*, device, stream const& last) noexcept;

/// Returns the device of a stream.
[[nodiscard]] std::int32_t device_of(std::uintptr_t stream_handle);

/// Makes work that is queued on `later` from now on wait for the work that is queued on `earlier`.
void order(stream const& earlier, stream const& later);
void wait(stream const&);
void synchronize(std::int32_t device_id);

/// Marks a point in a stream, and queries whether the stream has reached it.
[[nodiscard]] std::shared_ptr<void> mark(stream const&);
[[nodiscard]] bool passed(void* mark) noexcept;

/// Queue work on the stream. Only copies from or to pageable host memory block.
void copy(void* to, void const* from, std::size_t bytes, stream const&);
void set(void* to, unsigned char value, std::size_t bytes, stream const&);

/// Rows of `width` bytes, in slices of `rows`. In the destination rows are `pitch` bytes apart and slices `slice` rows; the source
/// is compact.
struct box {
    std::size_t width, rows, slices;
    std::size_t pitch, slice;
};
inline constexpr std::size_t most_pitch = 0x7fffffff;
/// Queues a copy within GPU memory. `pitch` is between `width` and `most_pitch`, `slice` no less than `rows`.
void spread(void* to, void const* from, box const&, stream const&);

/// Queues a copy of host memory, which may be reused at once. Blocks only if many copies are pending.
void upload(void* to, void const* from, std::size_t bytes, stream const&);

}  // namespace mt::cuda
