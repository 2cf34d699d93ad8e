// ferry: UUIDs of devices, which are the same in every process.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <source_location>

namespace FERRY_NAMESPACE::cuda {

/// The UUID of a device, which, unlike its ordinal, identifies the device in every process.
using device_uuid = std::array<std::uint8_t, 16>;

/// Returns the UUID of a device. Ordinals may differ between processes with different CUDA_VISIBLE_DEVICES.
///
/// \param device_id  ordinal in this process
/// \return           UUID
/// \throws error  errc::device, no_driver; errors of CUDA
[[nodiscard]] inline device_uuid uuid_of(std::int32_t device_id) {
    CUuuid found{};
    detail::check_driver(detail::driver().device_uuid(&found, device_id), "cuDeviceGetUuid", [&] {
        cudaDeviceProp facts;  // filled in by the call
        cudaError_t const e = cudaGetDeviceProperties(&facts, device_id);
        if (e == cudaSuccess) found = facts.uuid;
        return e;
    });
    device_uuid out;
    static_assert(sizeof found.bytes == sizeof out);
    std::memcpy(out.data(), found.bytes, sizeof out);
    return out;
}

/// Finds a device by its UUID.
///
/// \param wanted  UUID
/// \return        ordinal in this process
/// \throws error  errc::device_not_found, no_driver; errors of CUDA
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
        text << " is not among the " << count << " devices of this process: check CUDA_VISIBLE_DEVICES", where);
}

}  // namespace FERRY_NAMESPACE::cuda
