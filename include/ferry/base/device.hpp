// ferry: devices and device types.
#pragma once

#include <ferry/abi/dlpack.hpp>

#include <compare>
#include <cstdint>

namespace FERRY_NAMESPACE {

/// Device types, with the values of `DLDeviceType` (R34). The values above 18 are not yet in a released
/// DLPack header.
enum class device_type : std::int32_t {
    cpu = abi::device::cpu,
    cuda = abi::device::cuda,
    cuda_host = abi::device::cuda_host,  ///< pinned host memory, used by work on CUDA streams
    opencl = abi::device::opencl,
    vulkan = abi::device::vulkan,
    metal = abi::device::metal,
    vpi = abi::device::vpi,
    rocm = abi::device::rocm,
    rocm_host = abi::device::rocm_host,
    ext_dev = abi::device::ext_dev,
    cuda_managed = abi::device::cuda_managed,  ///< managed memory, accessible from the host and from devices
    one_api = abi::device::one_api,
    web_gpu = abi::device::web_gpu,
    hexagon = abi::device::hexagon,
    maia = abi::device::maia,
    trainium = abi::device::trainium,
    tpu = abi::device::tpu,
    tpu_host = abi::device::tpu_host,
    ascend = abi::device::ascend,
};

/// Returns whether DLPack defines a device type; imports reject other types (R3).
///
/// \param type  device type
/// \return      true when DLPack defines the type
[[nodiscard]] constexpr bool is_known(device_type type) noexcept {
    auto const n = static_cast<std::uint32_t>(type);
    constexpr auto known = ((2u << abi::device::ascend) - (1u << abi::device::cpu)) & ~(1u << 5 | 1u << 6);
    return n < 32 && (known >> n & 1) != 0;
}

/// Returns whether host code may access memory of a device type (R39).
///
/// \param type  device type
/// \return      true for cpu, cuda_host, rocm_host and cuda_managed
[[nodiscard]] constexpr bool is_host_accessible(device_type type) noexcept {
    return type == device_type::cpu || type == device_type::cuda_host || type == device_type::rocm_host ||
           type == device_type::cuda_managed;
}

/// Returns whether work on memory of a device type may be pending on a stream (R46, R48).
///
/// \param type  device type
/// \return      false for cpu
[[nodiscard]] constexpr bool uses_streams(device_type type) noexcept { return type != device_type::cpu; }

/// Returns whether CUDA streams order work on memory of a device type; exchanges of such memory accept tokens of CUDA
/// streams.
///
/// \param type  device type
/// \return      true for cuda, cuda_host and cuda_managed
[[nodiscard]] constexpr bool uses_cuda_streams(device_type type) noexcept {
    return type == device_type::cuda || type == device_type::cuda_host || type == device_type::cuda_managed;
}

/// Returns whether ROCm streams order work on memory of a device type; exchanges of such memory accept tokens of ROCm
/// streams.
///
/// \param type  device type
/// \return      true for rocm and rocm_host
[[nodiscard]] constexpr bool uses_rocm_streams(device_type type) noexcept {
    return type == device_type::rocm || type == device_type::rocm_host;
}

/// Returns whether `DLTensor::data` is an address, to which a byte offset can be added, rather than an opaque handle.
///
/// \param type  device type
/// \return      false for opencl, vulkan, metal and web_gpu
[[nodiscard]] constexpr bool is_addressable(device_type type) noexcept {
    return type != device_type::opencl && type != device_type::vulkan && type != device_type::metal &&
           type != device_type::web_gpu;
}

/// A device: its type, and its id in the numbering of the producer (R36).
struct device {
    device_type type = device_type::cpu;
    std::int32_t id = 0;

    /// Constructs `ferry::cpu`.
    constexpr device() = default;
    /// Constructs a device.
    ///
    /// \param t  device type
    /// \param i  id
    constexpr device(device_type t, std::int32_t i = 0) noexcept : type{t}, id{i} {}
    /// Constructs a device from a DLPack struct. Does not check the values.
    ///
    /// \param d  DLPack struct
    constexpr explicit device(DLDevice d) noexcept : type{static_cast<device_type>(d.device_type)}, id{d.device_id} {}

    /// Converts to the DLPack struct.
    ///
    /// \return  struct with the same values
    [[nodiscard]] constexpr DLDevice to_abi() const noexcept {
        return {static_cast<DLDeviceType>(static_cast<std::int32_t>(type)), id};
    }

    friend constexpr auto operator<=>(device const&, device const&) = default;
    // nvcc 13.0 does not define an implicitly declared operator== that only another friend function uses.
    friend constexpr bool operator==(device const&, device const&) = default;
};

/// Pageable host memory.
inline constexpr device cpu{device_type::cpu, 0};

/// Returns whether host code may access memory of a device (R39).
///
/// \param d  device
/// \return   true for devices of type cpu, cuda_host, rocm_host and cuda_managed
[[nodiscard]] constexpr bool is_host_accessible(device d) noexcept { return is_host_accessible(d.type); }

/// Returns whether the device ids of a type are ignored: exports write 0, and imports accept any id (R35).
///
/// \param type  device type
/// \return      true for host-accessible types
[[nodiscard]] constexpr bool ignores_id(device_type type) noexcept { return is_host_accessible(type); }

/// Returns whether two values refer to the same device (R35).
///
/// \param a  device
/// \param b  device
/// \return   true when the types are equal and the ids are equal or ignored
[[nodiscard]] constexpr bool is_same_device(device a, device b) noexcept {
    return a.type == b.type && (a.id == b.id || ignores_id(a.type));
}

namespace detail {

/// Returns whether memory of `from` can be used as memory of `to` without a copy: host-accessible memory can be used as
/// CPU memory, and managed memory as CUDA memory (R39, R53).
[[nodiscard]] constexpr bool is_reachable_as(device from, device to) noexcept {
    return is_same_device(from, to) || (to.type == device_type::cpu && is_host_accessible(from)) ||
           (to.type == device_type::cuda && from.type == device_type::cuda_managed);
}

}  // namespace detail

/// Returns the name of a device type, for use in messages.
///
/// \param type  device type
/// \return      "cpu", "cuda", …, or "unknown"; static storage
[[nodiscard]] constexpr char const* name(device_type type) noexcept {
    switch (type) {
        case device_type::cpu: return "cpu";
        case device_type::cuda: return "cuda";
        case device_type::cuda_host: return "cuda_host";
        case device_type::opencl: return "opencl";
        case device_type::vulkan: return "vulkan";
        case device_type::metal: return "metal";
        case device_type::vpi: return "vpi";
        case device_type::rocm: return "rocm";
        case device_type::rocm_host: return "rocm_host";
        case device_type::ext_dev: return "ext_dev";
        case device_type::cuda_managed: return "cuda_managed";
        case device_type::one_api: return "one_api";
        case device_type::web_gpu: return "web_gpu";
        case device_type::hexagon: return "hexagon";
        case device_type::maia: return "maia";
        case device_type::trainium: return "trainium";
        case device_type::tpu: return "tpu";
        case device_type::tpu_host: return "tpu_host";
        case device_type::ascend: return "ascend";
    }
    return "unknown";
}

}  // namespace FERRY_NAMESPACE
