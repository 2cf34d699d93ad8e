// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_copy
// A memory space instead of a back end.
#include <ferry/space/copy.hpp>

auto copied(ferry::tensor_view const& to, ferry::tensor_view const& from) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::copy(to, from, space);
#else
    return ferry::copy(to, from, ferry::destination{space});
#endif
}
