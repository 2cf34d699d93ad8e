// expect: the copy of a request is not a bool: pass copy_policy::always
// also: try_to_dlpack
// The copy argument of Python, in the braces of the request.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>


auto f(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(tensor), {.copy = true});
#else
    return ferry::to_dlpack(std::move(tensor), {.copy = ferry::copy_policy::always});
#endif
}
// next case
// also: try_from_dlpack
// The copy argument of Python, in the braces of the request.
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>


auto f(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.copy = true});
#else
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.copy = ferry::copy_policy::always});
#endif
}
