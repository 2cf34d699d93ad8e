// After a using-directive, the names of ferry are not ambiguous beside the headers of POSIX, CUDA, CCCL and RMM, except
// for the namespace `cuda`: code with both writes `ferry::cuda` and `::cuda`.
#include <fcntl.h>
#include <signal.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef FERRY_TEST_CUDA
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <vector_types.h>
#include <cuda/std/complex>
#include <cuda/std/mdspan>
#if __has_include(<rmm/device_buffer.hpp>)
#include <rmm/device_buffer.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/resource_ref.hpp>
#endif
#endif

#include <ferry/arrow.hpp>
#include <ferry/column.hpp>
#include <ferry/conformance.hpp>
#include <ferry/ferry.hpp>
#include <ferry/ipc.hpp>
#include <ferry/lease.hpp>
#ifdef FERRY_TEST_CUDA
#include <ferry/cuda.hpp>
#endif

#include <concepts>

using namespace ferry;

namespace {

// The names of the other headers denote the declarations of those headers.
static_assert(sizeof(access("", F_OK)) == sizeof(::access("", F_OK)));
#ifdef FERRY_TEST_CUDA
static_assert(std::same_as<int4, ::int4> && std::same_as<uint4, ::uint4> && sizeof(int4) == 16);
static_assert(std::same_as<float4, ::float4> && std::same_as<dim3, ::dim3>);
static_assert(std::constructible_from<ferry::cuda::stream_ref, cudaStream_t>);
static_assert(std::same_as<::cuda::std::mdspan<float, ::cuda::std::dims<2>>::element_type, float>);
static_assert(dtype_of<::cuda::std::complex<float>> == data_type{type_code::complex, 64});
#if __has_include(<rmm/device_buffer.hpp>)
static_assert(std::movable<rmm::device_buffer>);
static_assert(memory_space<ferry::cuda::stream_resource_space<rmm::mr::cuda_async_memory_resource>>);
static_assert(memory_space<ferry::cuda::stream_resource_space<rmm::device_async_resource_ref>>);
#endif
#endif

// The names of ferry need no qualification.
using view = typed_view<float const, 2, access_from::device, layout::contiguous>;
static_assert(std::same_as<view::element_type, float const>);
static_assert(packed_type<int4_t> && packed_type<uint4_t> && packed_type<float4_e2m1fn>);
static_assert(dtype_of<int4_t> == data_type{type_code::int_, 4});
static_assert(is_same_device(device{}, cpu) && !stream_token{}.has_device());
static_assert(std::same_as<decltype(request{}.copy), copy_policy> && !std::copyable<managed_tensor>);
static_assert(conformance::name(conformance::verdict::kept)[0] == 'k');

}  // namespace
