// expect: a null stream is ambiguous
#if __has_include(<cuda_runtime_api.h>)
#include <ferry/cuda/stream.hpp>

auto made() {
#ifdef FERRY_COMPILE_FAIL
    return ferry::cuda::stream_ref{nullptr};
#else
    return ferry::cuda::stream_ref::legacy_default();
#endif
}
#elif defined(FERRY_COMPILE_FAIL)
#error "SKIPPED, no CUDA headers: a null stream is ambiguous"
#endif
