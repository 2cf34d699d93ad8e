// minitensor: allocation.
#pragma once

#include <minitensor/device.hpp>
#include <minitensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mt {

/// Alignment of allocated memory, in bytes.
inline constexpr std::size_t alignment = 256;

/// Allocates uninitialised memory on a device. Any stream may use the memory immediately. Returns null for 0 bytes. The
/// last owner frees the memory, on any thread, after the work on `line`, which is null for host memory.
///
/// \throws std::bad_alloc  there is not enough memory
/// \throws buffer_error    there is no such device
[[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes, device,
                                             std::shared_ptr<timeline const> line = nullptr);

/// Returns the number of bytes that `allocate` has allocated and that have not been freed.
[[nodiscard]] std::int64_t live_bytes() noexcept;

}  // namespace mt
