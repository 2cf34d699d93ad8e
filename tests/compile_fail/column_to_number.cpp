// expect: the target is not a device or a memory space: pass ferry::cpu
// also: try_to
// The number of a device type instead of a device.
#include <ferry/column/to.hpp>


auto f(ferry::column const& c) {
#ifdef FERRY_COMPILE_FAIL
    return c.to(5);
#else
    return c.to(ferry::cpu);
#endif
}
