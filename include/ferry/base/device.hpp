// ferry: where memory lives.
#pragma once

#include <ferry/abi/dlpack.hpp>

#include <compare>
#include <cstdint>

namespace ferry::inline v0 {

/// Kinds of memory, numbered as DLPack numbers them (R34). 19 to 21 are in no released header yet.
enum class device_type : std::int32_t {
    cpu = abi::device::cpu,
    cuda = abi::device::cuda,
    cuda_host = abi::device::cuda_host,  ///< pinned: the host reads it, CUDA streams order it
    opencl = abi::device::opencl,
    vulkan = abi::device::vulkan,
    metal = abi::device::metal,
    vpi = abi::device::vpi,
    rocm = abi::device::rocm,
    rocm_host = abi::device::rocm_host,
    ext_dev = abi::device::ext_dev,
    cuda_managed = abi::device::cuda_managed,  ///< host and devices read it, CUDA streams order it
    one_api = abi::device::one_api,
    web_gpu = abi::device::web_gpu,
    hexagon = abi::device::hexagon,
    maia = abi::device::maia,
    trainium = abi::device::trainium,
    tpu = abi::device::tpu,
    tpu_host = abi::device::tpu_host,
    ascend = abi::device::ascend,
};

/// Whether ferry knows the type; an import rejects the others (R3).
[[nodiscard]] constexpr bool is_known(device_type type) noexcept {
    auto const n = static_cast<std::int32_t>(type);
    return n >= abi::device::cpu && n <= abi::device::ascend && n != 5 && n != 6;
}

/// Whether host code may dereference memory of this type (R39).
[[nodiscard]] constexpr bool is_host_accessible(device_type type) noexcept {
    return type == device_type::cpu || type == device_type::cuda_host || type == device_type::rocm_host ||
           type == device_type::cuda_managed;
}

/// Whether CUDA streams order work on memory of this type; only then does it take CUDA stream tokens.
[[nodiscard]] constexpr bool uses_cuda_streams(device_type type) noexcept {
    return type == device_type::cuda || type == device_type::cuda_host || type == device_type::cuda_managed;
}

/// Whether ROCm streams order work on memory of this type.
[[nodiscard]] constexpr bool uses_rocm_streams(device_type type) noexcept {
    return type == device_type::rocm || type == device_type::rocm_host;
}

/// Whether `data` is an address: byte offsets fold into it. The others hold a handle there.
[[nodiscard]] constexpr bool is_addressable(device_type type) noexcept {
    return type != device_type::opencl && type != device_type::vulkan && type != device_type::metal &&
           type != device_type::web_gpu;
}

/// A device as its producer numbers it (R36). Thread-safe as an int is.
struct device {
    device_type type = device_type::cpu;
    std::int32_t id = 0;

    constexpr device() = default;
    constexpr device(device_type t, std::int32_t i = 0) noexcept : type{t}, id{i} {}
    constexpr explicit device(DLDevice d) noexcept : type{static_cast<device_type>(d.device_type)}, id{d.device_id} {}

    [[nodiscard]] constexpr DLDevice to_abi() const noexcept {
        return {static_cast<DLDeviceType>(static_cast<std::int32_t>(type)), id};
    }

    friend constexpr auto operator<=>(device const&, device const&) = default;
};

/// The host's ordinary memory.
inline constexpr device cpu{device_type::cpu, 0};

[[nodiscard]] constexpr bool is_host_accessible(device d) noexcept { return is_host_accessible(d.type); }

/// Whether the id means nothing: ferry writes 0 there and accepts any (R35).
[[nodiscard]] constexpr bool ignores_id(device_type type) noexcept { return is_host_accessible(type); }

/// The same memory under both names? Ids count only where they mean something (R35).
[[nodiscard]] constexpr bool is_same_place(device a, device b) noexcept {
    return a.type == b.type && (a.id == b.id || ignores_id(a.type));
}

/// The name of a type in messages: "cpu", "cuda", …, or "unknown".
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

}  // namespace ferry::inline v0
