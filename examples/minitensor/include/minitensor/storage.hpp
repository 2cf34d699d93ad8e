// minitensor: memory of its own.
#pragma once

#include <minitensor/device.hpp>
#include <minitensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mt {

/// Own memory starts at a multiple of this, in bytes.
inline constexpr std::size_t alignment = 256;

/// Fresh, uninitialised memory on a device, which any stream may use at once; null for no bytes.
/// Freed, on any thread, with its last owner, and once the work on `line` is done, which is null for
/// memory of the host.
///
/// \throws std::bad_alloc  there is not enough
/// \throws buffer_error    minitensor has no such device
[[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes, device,
                                             std::shared_ptr<timeline const> line = nullptr);

/// The bytes that `allocate` handed out and that are still owned by somebody.
[[nodiscard]] std::int64_t live_bytes() noexcept;

}  // namespace mt
