// minitensor: devices.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

/// A device: the type of its memory, and its id.
struct device {
    static constexpr std::int32_t cpu = 1;
    static constexpr std::int32_t cuda = 2;
    static constexpr std::int32_t cuda_host = 3;      ///< page-locked host memory
    static constexpr std::int32_t cuda_managed = 13;  ///< migrates between the host and the GPUs

    std::int32_t type = cpu;
    std::int32_t id = 0;

    constexpr device() noexcept = default;
    constexpr device(std::int32_t t, std::int32_t i) noexcept : type{t}, id{i} {}
    /// Converts a device of another library, whose members have the same names and values.
    template <class Other>
        requires requires(Other o) { o.type, o.id; }
    constexpr device(Other o) noexcept : type{static_cast<std::int32_t>(o.type)}, id{o.id} {}

    friend constexpr bool operator==(device const&, device const&) = default;
};

/// Returns whether host code may read memory of the device.
[[nodiscard]] constexpr bool host_accessible(device d) noexcept {
    return d.type == device::cpu || d.type == device::cuda_host || d.type == device::cuda_managed;
}

/// Returns the device as tensors report it: the id of host memory is always 0. \throws buffer_error if this build
/// does not support such memory
[[nodiscard]] device normalised(device);

/// Returns "cpu", "cuda:0", "cuda_host" or "cuda_managed".
[[nodiscard]] std::string name(device);

}  // namespace mt
