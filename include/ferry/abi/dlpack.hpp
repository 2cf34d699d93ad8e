// ferry: the only header that includes the DLPack header. Supports every version from 1.0, with the same behaviour:
// constants that older headers lack are defined here. The layout of the structs is the same in all of them (R1).
#pragma once

#include <ferry/config.hpp>

#if defined(FERRY_DLPACK_HEADER)
#include FERRY_DLPACK_HEADER
#else
#if !__has_include(<dlpack/dlpack.h>)
#error "dlpack/dlpack.h not found: `pip install apache-tvm-ffi`, and include `tvm-ffi-config --dlpack-includedir`"
#include <see_the_error_above>  // GCC does not report a missing header again after __has_include
#endif
#include <dlpack/dlpack.h>
#endif

#include <cstdint>

#if !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION < 1
#error "ferry needs a DLPack header of version 1.0 or later, got an older one: put 1.x first on the include path"
#endif
#if DLPACK_MAJOR_VERSION > 1
#error "this DLPack header has another major version, expected 1: put a 1.x header first on the include path"
#endif

namespace FERRY_NAMESPACE::abi {

/// Numbers of the device types (R34), including those that older headers lack.
namespace device {
inline constexpr std::int32_t cpu = 1, cuda = 2, cuda_host = 3, opencl = 4, vulkan = 7, metal = 8, vpi = 9, rocm = 10,
                              rocm_host = 11, ext_dev = 12, cuda_managed = 13, one_api = 14, web_gpu = 15, hexagon = 16,
                              maia = 17, trainium = 18, tpu = 19, tpu_host = 20, ascend = 21;
}  // namespace device

/// Numbers of the data type codes (R16). Compare codes as integers, because a value outside of the C enum must not be
/// cast to it (R9).
namespace code {
inline constexpr std::uint8_t int_ = 0, uint = 1, float_ = 2, opaque_handle = 3, bfloat = 4, complex = 5, bool_ = 6,
                              float8_e3m4 = 7, float8_e4m3 = 8, float8_e4m3b11fnuz = 9, float8_e4m3fn = 10,
                              float8_e4m3fnuz = 11, float8_e5m2 = 12, float8_e5m2fnuz = 13, float8_e8m0fnu = 14,
                              float6_e2m3fn = 15, float6_e3m2fn = 16, float4_e2m1fn = 17, bcomplex = 18;
}  // namespace code

/// Flag bits (R11–R13); subbyte_padded since DLPack 1.1.
namespace flag {
inline constexpr std::uint64_t read_only = 1, is_copied = 2, subbyte_padded = 4;
}  // namespace flag

}  // namespace FERRY_NAMESPACE::abi
