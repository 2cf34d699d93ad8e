// ferry: the one includer of CUDA's headers. They are ordinary C++: no nvcc is needed here, and nothing of the driver is linked.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000
#error "ferry/cuda needs the CUDA Toolkit 13.0 or later"
#endif
