// The CUDA functions of minitensor. In a build without CUDA there are no devices, and the other functions throw.
#pragma once

#include <minitensor/device.hpp>
#include <minitensor/stream.hpp>

#include <cstddef>
#include <memory>

namespace mt::cuda {

/// Returns the number of devices; 0 without a driver.
[[nodiscard]] int device_count() noexcept;

/// Checks that a device exists. \throws buffer_error  there is no driver, or no such device
void require(device);

/// Allocates memory of a CUDA device type, which any stream may use immediately. \throws std::bad_alloc, buffer_error
[[nodiscard]] void* allocate(std::size_t bytes, device);
/// Frees memory; device memory after the work queued on `last`.
void deallocate(void*, device, stream const& last) noexcept;

/// Returns the device of a stream handle.
[[nodiscard]] std::int32_t device_of(std::uintptr_t stream_handle);

/// Makes work that is queued on `later` after this call wait for the work queued on `earlier`.
void order(stream const& earlier, stream const& later);
void wait(stream const&);
void synchronize(std::int32_t device_id);

/// Records a point in a stream.
[[nodiscard]] std::shared_ptr<void> mark(stream const&);
/// Returns whether the stream has reached a recorded point.
[[nodiscard]] bool passed(void* mark) noexcept;

/// Queues a copy on a stream; blocks only for copies from or to pageable host memory.
void copy(void* to, void const* from, std::size_t bytes, stream const&);
void set(void* to, unsigned char value, std::size_t bytes, stream const&);

/// Rows of `width` bytes, in slices of `rows` rows. In the destination, rows are `pitch` bytes apart, and slices are
/// `slice` rows apart; the source is compact.
struct box {
    std::size_t width, rows, slices;
    std::size_t pitch, slice;
};
inline constexpr std::size_t most_pitch = 0x7fffffff;
/// Queues a copy within GPU memory. `pitch` is between `width` and `most_pitch`, and `slice` is at least `rows`.
void spread(void* to, void const* from, box const&, stream const&);

/// Queues a copy of host memory, which may be reused on return. Blocks only while too many bytes are in flight.
void upload(void* to, void const* from, std::size_t bytes, stream const&);

}  // namespace mt::cuda
