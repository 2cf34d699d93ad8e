// ferry: functions of the CUDA runtime whose signatures differ between CUDA 12.6, 12.8 and 13.0, or that older versions
// lack.
#pragma once

#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <cstddef>

namespace FERRY_NAMESPACE::cuda::detail {

/// As cudaStreamGetCaptureInfo of CUDA 13.
inline void get_capture(cudaStream_t s, cudaStreamCaptureStatus& status, unsigned long long* id,
                        cudaGraphNode_t const** nodes, cudaGraphEdgeData const** edges, std::size_t* n) {
#if CUDART_VERSION >= 13000
    check(cudaStreamGetCaptureInfo(s, &status, id, nullptr, nodes, edges, n), "cudaStreamGetCaptureInfo");
#else
    check(cudaStreamGetCaptureInfo_v3(s, &status, id, nullptr, nodes, edges, n), "cudaStreamGetCaptureInfo");
#endif
}

/// Adds dependencies to those of the nodes that a stream captures later.
inline void add_dependencies(cudaStream_t s, cudaGraphNode_t* nodes, cudaGraphEdgeData const* edges, std::size_t n) {
    auto const flags = cudaStreamAddCaptureDependencies;
#if CUDART_VERSION >= 13000
    check(cudaStreamUpdateCaptureDependencies(s, nodes, edges, n, flags), "cudaStreamUpdateCaptureDependencies");
#else
    check(cudaStreamUpdateCaptureDependencies_v2(s, nodes, edges, n, flags), "cudaStreamUpdateCaptureDependencies");
#endif
}

/// Whether `memcpy_batch` makes one call for each piece, so that its earlier copies are queued when a later one fails.
inline constexpr bool batch_is_loop = CUDART_VERSION < 12080;

/// Queues `n` copies, as cudaMemcpyBatchAsync of CUDA 13.
inline void memcpy_batch(void* const* dst, void const* const* src, std::size_t const* bytes, std::size_t n,
                         cudaStream_t s) {
#if CUDART_VERSION >= 12080
    cudaMemcpyAttributes how{};
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
#if CUDART_VERSION >= 13000
    check(cudaMemcpyBatchAsync(dst, src, bytes, n, &how, &first, 1, s), "cudaMemcpyBatchAsync");
#else
    std::size_t failed = 0;
    check(cudaMemcpyBatchAsync(const_cast<void**>(dst), const_cast<void**>(src), const_cast<std::size_t*>(bytes), n,
                               &how, &first, 1, &failed, s),
          "cudaMemcpyBatchAsync");
#endif
#else
    for (std::size_t i = 0; i < n; ++i)
        check(cudaMemcpyAsync(dst[i], src[i], bytes[i], cudaMemcpyDefault, s), "cudaMemcpyAsync");
#endif
}

#if CUDART_VERSION >= 12080

/// Returns the device of a stream; creates the context of the current device if there is none.
inline cudaError_t get_stream_device(cudaStream_t s, int* id) noexcept { return cudaStreamGetDevice(s, id); }

using kernel_library = cudaLibrary_t;
[[nodiscard]] inline kernel_library load_library(void const* fatbin) {
    kernel_library library = nullptr;
    check(cudaLibraryLoadData(&library, fatbin, nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
    return library;
}
[[nodiscard]] inline cudaKernel_t get_kernel(kernel_library library, char const* name) {
    cudaKernel_t kernel = nullptr;
    check(cudaLibraryGetKernel(&kernel, library, name), "cudaLibraryGetKernel");
    return kernel;
}
inline cudaError_t unload_library(kernel_library library) noexcept { return cudaLibraryUnload(library); }
inline void launch_kernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments, cudaStream_t s) {
    check(cudaLaunchKernel(static_cast<void const*>(kernel), blocks, threads, arguments, 0, s), "cudaLaunchKernel");
}

#else

/// Repeats a call of the driver API with a context of the current device, which is created if needed.
template <class Call>
cudaError_t with_context(Call call) {
    int id = 0;
    cudaError_t e = cudaGetDevice(&id);
    if (e == cudaSuccess) e = cudaSetDevice(id);
    return e == cudaSuccess ? static_cast<cudaError_t>(call()) : e;
}

inline cudaError_t get_stream_device(cudaStream_t s, int* id) {
    return with_context([&] { return driver().get_stream_device(s, id); });
}

using kernel_library = CUlibrary;
[[nodiscard]] inline kernel_library load_library(void const* fatbin) {
    kernel_library library = nullptr;
    auto const load = [&] {
        return driver().library_load(&library, fatbin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    };
    check_driver(load(), "cuLibraryLoadData", [&] { return with_context(load); });
    return library;
}
[[nodiscard]] inline cudaKernel_t get_kernel(kernel_library library, char const* name) {
    cudaKernel_t kernel = nullptr;
    auto const get = [&] { return driver().library_kernel(&kernel, library, name); };
    check_driver(get(), "cuLibraryGetKernel", [&] { return with_context(get); });
    return kernel;
}
inline cudaError_t unload_library(kernel_library library) {
    return static_cast<cudaError_t>(driver().library_unload(library));
}
inline void launch_kernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments, cudaStream_t s) {
    auto const launch = [&] {
        return driver().launch(reinterpret_cast<CUfunction>(kernel), blocks.x, blocks.y, blocks.z, threads.x, threads.y,
                               threads.z, 0, s, arguments, nullptr);
    };
    check_driver(launch(), "cuLaunchKernel", [&] { return with_context(launch); });
}

#endif

}  // namespace FERRY_NAMESPACE::cuda::detail
