// expect: (use of deleted function|conversion function from .* invokes a deleted function)
// expect: this view of static rank is temporary
// A parameter is destroyed when the function returns, and the returned view would reference its extents.
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
using result = ferry::typed_view<float>;
#else
using result = ferry::typed_view<float const, 2>;
#endif
result same(ferry::typed_view<float, 2> v) { return v; }
// next case
// A view of dynamic rank references the extents, which a view of static rank stores.
#include <ferry/tensor/as.hpp>

ferry::typed_view<float> of_any_rank(ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::as<float, 2>(v);
#else
    return ferry::as<float>(v);
#endif
}
