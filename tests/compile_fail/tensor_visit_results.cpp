// expect: must return the same type for every element type
// also: try_visit
// The results of visit's function have one type.
#include <ferry/tensor/visit.hpp>

auto first(ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::visit<1, float const, double const>(v, [](auto const& x) { return x(0); });
#else
    return ferry::visit<1, float const, double const>(v, [](auto const& x) -> double { return x(0); });
#endif
}
