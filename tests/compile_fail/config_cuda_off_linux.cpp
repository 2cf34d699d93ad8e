// expect: ferry/cuda does not support this platform, it needs Linux
// with: -U__linux__
#if defined(FERRY_COMPILE_FAIL) || __has_include(<cuda_runtime_api.h>)
#include <ferry/cuda/api.hpp>
#endif
