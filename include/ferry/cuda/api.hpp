// ferry: the one includer of CUDA's headers. They are ordinary C++: no nvcc is needed here, and nothing of the driver
// is linked.
#pragma once

#include <ferry/config.hpp>

#if !FERRY_HAS_IPC
#error "ferry/cuda needs Linux: elsewhere pass a back end of your own (ferry/space/back_end.hpp says what it must have)"
#endif

#include <cuda.h>
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000
#error "ferry/cuda needs the CUDA Toolkit 13.0 or later: put its include folder before the older one's"
#endif
