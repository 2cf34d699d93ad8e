// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_to
// A memory space instead of a back end.
#include <ferry/column/to.hpp>

auto copied(ferry::column const& c) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return c.to(space, space);
#else
    return c.to(space, ferry::destination{space});
#endif
}
