// expect: ferry::as<T, Rank>\(view\)
// Typed views are made by `as` only, which checks the view.
#include <ferry/tensor/typed_view.hpp>

double last(ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    ferry::typed_view<double, 5> const typed{v};
#else
    auto const typed = ferry::as<double, 5>(v);
#endif
    return typed(0, 0, 0, 0, 0);
}
