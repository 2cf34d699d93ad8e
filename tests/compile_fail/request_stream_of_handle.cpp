// expect: the family of this stream is unknown: pass stream_token::cuda\(the cudaStream_t\)
// A stream without a family (R44, R45).
#include <ferry/exchange/request.hpp>

auto made([[maybe_unused]] CUstream_st* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::request{.stream = stream};
#else
    return ferry::request{.stream = ferry::stream_token::cuda(stream)};
#endif
}
// next case
// also: try_to_host
// The stream of a bare device tensor.
#include <ferry/exchange/to_host.hpp>

#include <utility>

auto copied(ferry::managed_tensor& t, CUstream_st* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_host(std::move(t), ferry::host_only, stream);
#else
    return ferry::to_host(std::move(t), ferry::host_only, ferry::stream_token::cuda(stream));
#endif
}
