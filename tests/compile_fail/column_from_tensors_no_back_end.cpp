// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_from_tensors
// A memory space instead of a back end.
#include <ferry/column/from_tensors.hpp>

#include <utility>

auto made(ferry::managed_tensor& data) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_tensors(std::move(data), {}, space);
#else
    return ferry::from_tensors(std::move(data), {}, ferry::destination{space});
#endif
}
