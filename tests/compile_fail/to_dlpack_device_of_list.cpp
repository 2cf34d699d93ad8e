// expect: the device of a request is not a number: pass ferry::cpu, or ferry::device\{ferry::device_type::cuda, id\}
// also: try_to_dlpack
// A std::optional cannot be made of a list of two values.
#include <ferry/exchange/to_dlpack.hpp>

auto exported(ferry::managed_tensor const& t) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(t, {.device = {ferry::device_type::cuda, 0}});
#else
    return ferry::to_dlpack(t, {.device = ferry::device{ferry::device_type::cuda, 0}});
#endif
}
