// ferry: includes the CUDA headers; no other ferry header does. They are plain C++: neither nvcc nor linking the driver
// is needed.
#pragma once

#include <ferry/config.hpp>

#if !FERRY_HAS_IPC
#error "ferry/cuda does not support this platform, it needs Linux: pass another back end (ferry/space/back_end.hpp)"
#endif

#include <cuda.h>
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000
#error "the CUDA headers are too old, ferry/cuda needs CUDA Toolkit 13.0 or later: put its include directory first"
#endif
