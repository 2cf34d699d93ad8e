// expect: pass stream_token::cuda\(the cudaStream_t\), .*stream_token::from_cuda_handle\(a void\*\)
// also: try_to_dlpack
// A stream without a family (R44, R45), in the braces of the request.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

auto exported(ferry::managed_tensor& tensor, CUstream_st* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(tensor), {.stream = stream});
#else
    return ferry::to_dlpack(std::move(tensor), {.stream = ferry::stream_token::cuda(stream)});
#endif
}
// next case
// also: try_from_dlpack
// A stream without a family (R44, R45), in the braces of the request.
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

auto imported(ferry::managed_tensor& tensor, CUstream_st* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.stream = stream});
#else
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.stream = ferry::stream_token::cuda(stream)});
#endif
}
// next case
// also: try_to_dlpack
// A stream without a family (R44, R45), in the braces of the request.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

auto exported(ferry::managed_tensor& tensor, void* stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(tensor), {.stream = stream});
#else
    return ferry::to_dlpack(std::move(tensor), {.stream = ferry::stream_token::from_cuda_handle(stream)});
#endif
}
