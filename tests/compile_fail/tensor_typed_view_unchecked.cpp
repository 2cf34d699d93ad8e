// expect: ferry::as<T, Rank>\(view\)
// Only `as`, which checks the view, creates a typed view.
#include <ferry/tensor/as.hpp>

double last(ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    ferry::typed_view<double, 5> const typed{v};
#else
    auto const typed = ferry::as<double, 5>(v);
#endif
    return typed(0, 0, 0, 0, 0);
}
