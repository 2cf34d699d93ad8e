// expect: this back end has no events of Arrow's: pass ferry::cuda::arrow
// A back end without events, where one with events is required.
#include <ferry/arrow.hpp>
#include <support/sim_arrow.hpp>

auto imported(ArrowDeviceArray* array, ArrowSchema* schema, support::sim_system& sim) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_arrow(array, schema, sim);
#else
    support::sim_arrow events{sim};
    return ferry::from_arrow(array, schema, events);
#endif
}
