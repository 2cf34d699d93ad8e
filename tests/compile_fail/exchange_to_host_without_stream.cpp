// expect: pass the stream on which the tensor is ready
// also: try_to_host
// A tensor without a producer does not contain the stream on which it is ready (D7).
#include <ferry/exchange/to_host.hpp>

#include <utility>

auto fetched(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_host(std::move(tensor), ferry::host_only);
#else
    return ferry::to_host(std::move(tensor), ferry::host_only, ferry::already_ready);
#endif
}
