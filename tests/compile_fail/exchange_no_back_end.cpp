// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_to_dlpack
// A memory space instead of a back end.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() { return {&value, {}}; }
};

auto exported(array& a) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::always}, space);
#else
    return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::always}, ferry::destination{space});
#endif
}
