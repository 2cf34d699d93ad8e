// expect: (assignment of read-only location|cannot assign to return value because function .* returns a const value)
// T const is read-only (R11).
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
using element = float const;
#else
using element = float;
#endif
void clear(ferry::typed_view<element, 2> v) { v(0, 0) = 0; }
