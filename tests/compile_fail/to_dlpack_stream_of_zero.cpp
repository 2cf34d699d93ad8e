// expect: streams are (not|neither) integers.* pass stream_token::.*, or \{\} for no stream
// also: try_to_dlpack
// A stream without a family (R44, R45), in the braces of the request.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

auto exported(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(tensor), {.stream = 0});
#else
    return ferry::to_dlpack(std::move(tensor), {.stream = {}});
#endif
}
// next case
// also: try_from_dlpack
// A stream without a family (R44, R45), in the braces of the request.
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

auto imported(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.stream = 0});
#else
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.stream = {}});
#endif
}
