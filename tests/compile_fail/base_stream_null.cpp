// expect: a null stream is ambiguous
// A null stream may mean either default stream (R44).
#include <ferry/base/stream_token.hpp>

#ifdef FERRY_COMPILE_FAIL
auto token = ferry::stream_token::cuda(nullptr);
#else
auto token = ferry::stream_token::cuda_per_thread_default();
#endif
// next case
// A stream without a family (R44, R45).
#include <ferry/exchange/request.hpp>

auto made([[maybe_unused]] CUstream_st* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::request{.stream = nullptr};
#else
    return ferry::request{.stream = ferry::stream_token::cuda(stream)};
#endif
}
