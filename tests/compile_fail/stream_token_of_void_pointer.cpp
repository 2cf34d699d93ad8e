// expect: if it is a CUDA stream as a void\*, call from_cuda_handle
#include <ferry/base/stream_token.hpp>

auto token(void* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::stream_token::cuda(stream);
#else
    return ferry::stream_token::from_cuda_handle(stream);
#endif
}
