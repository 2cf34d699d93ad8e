// R1: the layout of the exchanged structs, and the values of ferry compared with those of the header.
#include <ferry/abi/dlpack.hpp>
#include <ferry/base/version.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

static_assert(sizeof(void*) == 8 && sizeof(std::size_t) == 8, "ferry is for LP64");

static_assert(sizeof(DLPackVersion) == 8 && alignof(DLPackVersion) == 4);
static_assert(offsetof(DLPackVersion, major) == 0 && offsetof(DLPackVersion, minor) == 4);

static_assert(sizeof(DLDevice) == 8 && alignof(DLDevice) == 4);
static_assert(offsetof(DLDevice, device_type) == 0 && offsetof(DLDevice, device_id) == 4);
static_assert(sizeof(DLDeviceType) == 4);
static_assert(std::is_same_v<std::underlying_type_t<DLDeviceType>, std::int32_t>);

static_assert(sizeof(DLDataType) == 4 && alignof(DLDataType) == 2);
static_assert(offsetof(DLDataType, code) == 0 && offsetof(DLDataType, bits) == 1 && offsetof(DLDataType, lanes) == 2);

static_assert(sizeof(DLTensor) == 48 && alignof(DLTensor) == 8);
static_assert(offsetof(DLTensor, data) == 0 && offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16);
static_assert(offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24);
static_assert(offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40);

static_assert(sizeof(DLManagedTensor) == 64 && alignof(DLManagedTensor) == 8);
static_assert(offsetof(DLManagedTensor, dl_tensor) == 0 && offsetof(DLManagedTensor, manager_ctx) == 48);
static_assert(offsetof(DLManagedTensor, deleter) == 56);

static_assert(sizeof(DLManagedTensorVersioned) == 80 && alignof(DLManagedTensorVersioned) == 8);
static_assert(offsetof(DLManagedTensorVersioned, version) == 0 && offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16 && offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

static_assert(std::is_standard_layout_v<DLManagedTensorVersioned> &&
              std::is_trivially_copyable_v<DLManagedTensorVersioned>);
static_assert(std::is_standard_layout_v<DLManagedTensor> && std::is_trivially_copyable_v<DLManagedTensor>);

static_assert(std::is_same_v<decltype(DLTensor::ndim), std::int32_t>);
static_assert(std::is_same_v<decltype(DLTensor::byte_offset), std::uint64_t>);
static_assert(std::is_same_v<decltype(DLTensor::shape), std::int64_t*>);
static_assert(std::is_same_v<decltype(DLManagedTensorVersioned::flags), std::uint64_t>);

namespace device = ferry::abi::device;
namespace code = ferry::abi::code;
namespace flag = ferry::abi::flag;

// R34
static_assert(device::cpu == kDLCPU && device::cuda == kDLCUDA && device::cuda_host == kDLCUDAHost);
static_assert(device::opencl == kDLOpenCL && device::vulkan == kDLVulkan && device::metal == kDLMetal);
static_assert(device::vpi == kDLVPI && device::rocm == kDLROCM && device::rocm_host == kDLROCMHost);
static_assert(device::ext_dev == kDLExtDev && device::cuda_managed == kDLCUDAManaged && device::one_api == kDLOneAPI);
static_assert(device::web_gpu == kDLWebGPU && device::hexagon == kDLHexagon && device::maia == kDLMAIA);
#if DLPACK_MINOR_VERSION >= 2
static_assert(device::trainium == kDLTrn);
#endif
static_assert(device::trainium == 18 && device::tpu == 19 && device::tpu_host == 20 && device::ascend == 21);

// R16
static_assert(code::int_ == kDLInt && code::uint == kDLUInt && code::float_ == kDLFloat);
static_assert(code::opaque_handle == kDLOpaqueHandle && code::bfloat == kDLBfloat && code::complex == kDLComplex);
static_assert(code::bool_ == kDLBool);
#if DLPACK_MINOR_VERSION >= 1
static_assert(code::float8_e3m4 == kDLFloat8_e3m4 && code::float8_e4m3 == kDLFloat8_e4m3);
static_assert(code::float8_e4m3b11fnuz == kDLFloat8_e4m3b11fnuz && code::float8_e4m3fn == kDLFloat8_e4m3fn);
static_assert(code::float8_e4m3fnuz == kDLFloat8_e4m3fnuz && code::float8_e5m2 == kDLFloat8_e5m2);
static_assert(code::float8_e5m2fnuz == kDLFloat8_e5m2fnuz && code::float8_e8m0fnu == kDLFloat8_e8m0fnu);
static_assert(code::float6_e2m3fn == kDLFloat6_e2m3fn && code::float6_e3m2fn == kDLFloat6_e3m2fn);
static_assert(code::float4_e2m1fn == kDLFloat4_e2m1fn);
#endif
static_assert(code::float8_e3m4 == 7 && code::float4_e2m1fn == 17 && code::bcomplex == 18);

// R11, R12, R13
static_assert(flag::read_only == DLPACK_FLAG_BITMASK_READ_ONLY && flag::is_copied == DLPACK_FLAG_BITMASK_IS_COPIED);
#ifdef DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
static_assert(flag::subbyte_padded == DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
#endif
static_assert(flag::read_only == 1 && flag::is_copied == 2 && flag::subbyte_padded == 4);

TEST_CASE("R1: the header in use has the ABI that ferry supports") {
    CHECK(DLPACK_MAJOR_VERSION == static_cast<int>(ferry::version::current.major));
    CHECK(sizeof(DLManagedTensorVersioned) == 80);
}
