// minitensor: memory that it allocates.
#pragma once

#include <minitensor/device.hpp>
#include <minitensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mt {

/// The alignment of allocated memory, in bytes.
inline constexpr std::size_t alignment = 256;

/// Allocates uninitialised memory on a device, which any stream may use at once; returns null for 0 bytes.
/// The memory is freed on any thread when the last owner is destroyed and the work on `line` is done;
/// `line` is null for host memory.
///
/// \throws std::bad_alloc  out of memory
/// \throws buffer_error    no such device
[[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes, device,
                                             std::shared_ptr<timeline const> line = nullptr);

/// Returns the number of bytes that `allocate` has returned and that still have an owner.
[[nodiscard]] std::int64_t live_bytes() noexcept;

}  // namespace mt
