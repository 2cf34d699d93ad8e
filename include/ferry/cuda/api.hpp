// ferry: the only header that includes cuda.h and cuda_runtime_api.h. Requires neither nvcc nor the driver library.
#pragma once

#if defined(__linux__) && !__has_include(<cuda_runtime_api.h>)
#error "cuda_runtime_api.h not found: install CUDA Toolkit 12.6 or later, and with CMake link ferry::cuda (find_package(ferry COMPONENTS cuda))"
#include <see_the_error_above>
#endif

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/config.hpp>

#if !FERRY_HAS_IPC
#error "ferry/cuda needs 64-bit Linux: pass another back end (ferry/space/back_end.hpp)"
#include <see_the_error_above>
#endif

#include <cuda.h>
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 12060
#error "ferry/cuda needs CUDA Toolkit 12.6 or later, got an older one: put the include directory of a newer toolkit first on the include path"
#endif
