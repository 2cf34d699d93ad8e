// expect: the export of a column has no request: pass the back end
// also: try_to_dlpack
// A request with a number instead of a stream.
#include <ferry/column/dlpack.hpp>


auto f(ferry::column& c) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(c, {.stream = 0});
#else
    return ferry::to_dlpack(c, ferry::host_only);
#endif
}
