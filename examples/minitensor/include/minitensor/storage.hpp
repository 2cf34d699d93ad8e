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

/// Allocates uninitialised memory on a device, which any stream may use at once; null for no bytes.
/// Freed with its last owner, on any thread, after the work on `line`, which is null for host memory.
///
/// \throws std::bad_alloc  there is not enough memory
/// \throws buffer_error    minitensor has no such device
[[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes, device,
                                             std::shared_ptr<timeline const> line = nullptr);

/// The number of bytes that `allocate` returned and that have not been freed.
[[nodiscard]] std::int64_t live_bytes() noexcept;

}  // namespace mt
