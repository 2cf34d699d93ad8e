// Error codes of CUDA errors; needs no device.
#if __has_include(<cuda_runtime_api.h>)
#include <ferry/cuda/error.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <initializer_list>

using ferry::errc;
using ferry::cuda::detail::code_of;
using ferry::cuda::detail::cure_of;
using ferry::cuda::detail::is_sticky;

TEST_CASE("cuda: each CUDA error has the error code of its remedy") {
    CHECK(code_of(cudaErrorMemoryAllocation) == errc::out_of_memory);
    CHECK(code_of(cudaErrorNoDevice) == errc::no_driver);
    CHECK(code_of(cudaErrorInsufficientDriver) == errc::no_driver);
    CHECK(code_of(cudaErrorInvalidDevice) == errc::device);
    CHECK(code_of(cudaErrorPeerAccessUnsupported) == errc::no_peer_access);
    CHECK(code_of(cudaErrorInvalidResourceHandle) == errc::stream);
    CHECK(code_of(cudaErrorDeviceUninitialized) == errc::no_context);
    for (auto const e : {cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated,
                         cudaErrorStreamCaptureMerge, cudaErrorStreamCaptureIsolation, cudaErrorStreamCaptureImplicit,
                         cudaErrorCapturedEvent, cudaErrorStreamCaptureWrongThread})
        CHECK(code_of(e) == errc::capturing);
    for (auto const e : {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorAssert, cudaErrorMisalignedAddress,
                         cudaErrorMpsClientTerminated, cudaErrorCudartUnloading, static_cast<cudaError_t>(226),
                         static_cast<cudaError_t>(721)}) {
        CHECK(is_sticky(e));
        CHECK(code_of(e) == errc::context_lost);
    }
    CHECK(code_of(cudaErrorInvalidValue) == errc::driver);
    CHECK(!is_sticky(cudaErrorInvalidValue));
}

TEST_CASE("cuda: a failure states the call, CUDA's description, and a cure") {
    try {
        ferry::cuda::check(cudaErrorMemoryAllocation, "cudaMalloc");
        FAIL("nothing was thrown");
    } catch (ferry::error const& e) {
        CHECK(e.code() == errc::out_of_memory);
        CHECK(std::strstr(e.what(), "cudaMalloc: ") == e.what());
        CHECK(std::strstr(e.what(), "cudaErrorMemoryAllocation") != nullptr);
        CHECK(std::strstr(e.what(), "free memory") != nullptr);
    }
    CHECK_NOTHROW(ferry::cuda::check(cudaSuccess, "cudaMalloc"));
    for (auto const code : {errc::context_lost, errc::out_of_memory, errc::no_driver, errc::device,
                            errc::no_peer_access, errc::no_context, errc::stream, errc::capturing})
        CHECK(std::strlen(cure_of(code)) > 10);
}
#endif
