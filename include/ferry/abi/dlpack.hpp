// ferry: the one includer of the DLPack header. Works with every header from 1.0 on and behaves the same with all of
// them: what an older header lacks is named here. Their structs have one layout (R1).
#pragma once

#include <ferry/config.hpp>

#if !__has_include(<dlpack/dlpack.h>)
#error "ferry needs dlpack/dlpack.h: `pip install apache-tvm-ffi`, and include `tvm-ffi-config --dlpack-includedir`"
#endif
#include <dlpack/dlpack.h>

#include <cstdint>

#if !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION < 1
#error "ferry needs a DLPack header of version 1.0 or later: put a newer one first on the include path"
#endif
#if DLPACK_MAJOR_VERSION > 1
#error "ferry speaks DLPack 1.x; this header has another ABI"
#endif

namespace ferry::inline v0::abi {

/// Device types (R34) by number: headers differ in how many they name.
namespace device {
inline constexpr std::int32_t cpu = 1, cuda = 2, cuda_host = 3, opencl = 4, vulkan = 7, metal = 8, vpi = 9, rocm = 10,
                              rocm_host = 11, ext_dev = 12, cuda_managed = 13, one_api = 14, web_gpu = 15, hexagon = 16,
                              maia = 17, trainium = 18, tpu = 19, tpu_host = 20, ascend = 21;
}  // namespace device

/// Data type codes (R16) by number. Compare codes as integers: a value outside the C enum must not be cast to it (R9).
namespace code {
inline constexpr std::uint8_t int_ = 0, uint = 1, float_ = 2, opaque_handle = 3, bfloat = 4, complex = 5, bool_ = 6,
                              float8_e3m4 = 7, float8_e4m3 = 8, float8_e4m3b11fnuz = 9, float8_e4m3fn = 10,
                              float8_e4m3fnuz = 11, float8_e5m2 = 12, float8_e5m2fnuz = 13, float8_e8m0fnu = 14,
                              float6_e2m3fn = 15, float6_e3m2fn = 16, float4_e2m1fn = 17, bcomplex = 18;
}  // namespace code

/// Flag bits (R11–R13); the padded bit came with 1.1.
namespace flag {
inline constexpr std::uint64_t read_only = 1, is_copied = 2, subbyte_padded = 4;
}  // namespace flag

}  // namespace ferry::inline v0::abi
