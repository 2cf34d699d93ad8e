// expect: a managed_tensor has one owner and cannot be shared: pass std::move
// also: try_to_dlpack
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

auto exported(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(tensor);
#else
    return ferry::to_dlpack(std::move(tensor), ferry::request{.device = ferry::cpu});
#endif
}
// next case
// also: try_from_dlpack
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

auto imported(ferry::managed_tensor& tensor) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack<ferry::managed_tensor>(tensor, {.device = ferry::cpu});
#else
    return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor), {.device = ferry::cpu});
#endif
}
