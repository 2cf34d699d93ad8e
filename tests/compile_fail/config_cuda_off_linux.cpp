// expect: ferry/cuda needs 64-bit Linux: pass another back end
// with: -U__linux__
#if defined(FERRY_COMPILE_FAIL) || __has_include(<cuda_runtime_api.h>)
#include <ferry/cuda/api.hpp>
#endif
