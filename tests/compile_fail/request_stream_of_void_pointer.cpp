// expect: the family of this stream is unknown: .* stream_token::from_cuda_handle\(a void\*\)
// A stream without a family (R44, R45).
#include <ferry/exchange/request.hpp>

auto made([[maybe_unused]] CUstream_st* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::request{.stream = static_cast<void*>(stream)};
#else
    return ferry::request{.stream = ferry::stream_token::cuda(stream)};
#endif
}
