// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_to_host
// A memory space instead of a back end.
#include <ferry/exchange/to_host.hpp>

auto copied(ferry::tensor_view const& v) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_host(v, space, ferry::already_ready);
#else
    return ferry::to_host(v, ferry::destination{space}, ferry::already_ready);
#endif
}
