// expect: cuda_runtime_api.h not found: install CUDA Toolkit 12.6 or later
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/cuda/api.hpp>
#endif
