// expect: a null stream is ambiguous
#include <ferry/cuda/stream.hpp>

auto made() {
#ifdef FERRY_COMPILE_FAIL
    return ferry::cuda::stream_ref{nullptr};
#else
    return ferry::cuda::stream_ref::legacy_default();
#endif
}
