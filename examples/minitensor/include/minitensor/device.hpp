// minitensor: devices.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

/// A kind of memory, and the number of the device.
struct device {
    static constexpr std::int32_t cpu = 1;
    static constexpr std::int32_t cuda = 2;
    static constexpr std::int32_t cuda_host = 3;      ///< page-locked host memory
    static constexpr std::int32_t cuda_managed = 13;  ///< migrates between the host and the GPUs

    std::int32_t type = cpu;
    std::int32_t id = 0;

    constexpr device() noexcept = default;
    constexpr device(std::int32_t t, std::int32_t i) noexcept : type{t}, id{i} {}
    /// Converts a device of another library that has members of the same names and numbers.
    template <class Other>
        requires requires(Other o) { o.type, o.id; }
    constexpr device(Other o) noexcept : type{static_cast<std::int32_t>(o.type)}, id{o.id} {}

    friend constexpr bool operator==(device const&, device const&) = default;
};

/// Whether host code may read memory of the device.
[[nodiscard]] constexpr bool host_accessible(device d) noexcept {
    return d.type == device::cpu || d.type == device::cuda_host || d.type == device::cuda_managed;
}

/// The device as tensors report it: host memory always has number 0. \throws buffer_error if this build
/// does not support such memory
[[nodiscard]] device normalised(device);

/// "cpu", "cuda:0", "cuda_host", "cuda_managed"
[[nodiscard]] std::string name(device);

}  // namespace mt
