// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_to_dlpack
// A memory space instead of a back end.
#include <ferry/column/dlpack.hpp>

auto exported(ferry::column const& c) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(c, space);
#else
    return ferry::to_dlpack(c, ferry::destination{space});
#endif
}
