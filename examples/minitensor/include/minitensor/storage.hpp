// minitensor: memory of its own.
#pragma once

#include <minitensor/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mt {

/// Own memory starts at a multiple of this, in bytes.
inline constexpr std::size_t alignment = 256;

/// Fresh, uninitialised memory on a device; null for no bytes. Freed, on any thread, with its last
/// owner.
///
/// \throws std::bad_alloc  there is not enough
/// \throws buffer_error    minitensor has no such device
[[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes, device);

/// The bytes that `allocate` handed out and that are still owned by somebody.
[[nodiscard]] std::int64_t live_bytes() noexcept;

}  // namespace mt
