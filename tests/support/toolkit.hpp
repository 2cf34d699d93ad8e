// The names and types of CUDA 13 for tests that are compiled with an older CUDA Toolkit.
#pragma once

#include <ferry/cuda/api.hpp>

#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#undef cudaStreamUpdateCaptureDependencies
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#endif

#if CUDART_VERSION < 12080
// The runtime lacks these functions. The fake defines all of them, and tests/gpu/cuda_12 the first.
using cudaLibrary_t = CUlibrary;
using cudaJitOption = CUjit_option;
using cudaLibraryOption = CUlibraryOption;
extern "C" {
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t s, int* id);
cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t* l, void const* data, cudaJitOption* o, void** values,
                                          unsigned n, cudaLibraryOption* lo, void** lvalues, unsigned ln);
cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t* k, cudaLibrary_t l, char const* name);
cudaError_t CUDARTAPI cudaLibraryUnload(cudaLibrary_t l);
}
#endif
