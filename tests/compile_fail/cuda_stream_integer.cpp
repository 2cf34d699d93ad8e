// expect: an integer is not a stream
#include <ferry/cuda/stream.hpp>

auto made() {
#ifdef FERRY_COMPILE_FAIL
    return ferry::cuda::stream_ref{0};
#else
    return ferry::cuda::stream_ref::legacy_default();
#endif
}
