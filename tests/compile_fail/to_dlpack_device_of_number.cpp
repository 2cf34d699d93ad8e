// expect: the device of a request is not a number: pass ferry::cpu
// also: try_to_dlpack
// The number of a device type, in the braces of the request.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>


auto f(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(tensor), {.device = 2});
#else
    return ferry::to_dlpack(std::move(tensor), {.device = ferry::device_type::cuda});
#endif
}
// next case
// also: try_from_dlpack
// The number of a device type, in the braces of the request.
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>


auto f(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.device = 2});
#else
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.device = ferry::device_type::cuda});
#endif
}
