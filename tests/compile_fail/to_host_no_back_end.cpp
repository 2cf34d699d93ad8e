// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_to_host
// A memory space instead of a back end.
#include <ferry/exchange/to_host.hpp>

#include <utility>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() { return {&value, {}}; }
};

auto imported(array& a) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_host(std::move(a), space);
#else
    return ferry::to_host(std::move(a), ferry::destination{space});
#endif
}
