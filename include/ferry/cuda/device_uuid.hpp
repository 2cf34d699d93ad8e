// ferry: GPUs by the name that they have in every process.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <source_location>

namespace ferry::inline v0::cuda {

/// What names a device in every process, as its number does not.
using device_uuid = std::array<std::uint8_t, 16>;

/// The UUID of a device. Its ordinal means nothing in another process, where CUDA_VISIBLE_DEVICES may differ.
/// \throws error  errc::device, no_driver
[[nodiscard]] inline device_uuid uuid_of(std::int32_t device_id) {
    CUuuid found{};
    detail::check_driver(detail::driver().device_uuid(&found, device_id), "cuDeviceGetUuid", [&] {
        cudaDeviceProp facts;  // filled by the call, which asks for all of them
        cudaError_t const e = cudaGetDeviceProperties(&facts, device_id);
        if (e == cudaSuccess) found = facts.uuid;
        return e;
    });
    device_uuid out;
    static_assert(sizeof found.bytes == sizeof out);
    std::memcpy(out.data(), found.bytes, sizeof out);
    return out;
}

/// The ordinal that this process gives to a device.
/// \throws error  errc::device_not_found, no_driver
[[nodiscard]] inline std::int32_t device_with(device_uuid const& wanted,
                                              std::source_location where = std::source_location::current()) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount", where);
    for (int id = 0; id < count; ++id)
        if (uuid_of(id) == wanted) return id;
    message text{"GPU-"};
    for (auto const byte : wanted) text << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
    ferry::detail::fail(
        errc::device_not_found, "ferry::cuda::device_with",
        text << " is not among the " << count << " devices of this process: look at CUDA_VISIBLE_DEVICES", where);
}

}  // namespace ferry::inline v0::cuda
