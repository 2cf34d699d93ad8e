// expect: this is no back end: see ferry::back_end
// A memory space is not a back end.
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
    return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::always}, ferry::allocating_from{space});
#endif
}
