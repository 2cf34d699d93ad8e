// expect: the family has no mdspan for the host: pass a family with `contiguous` and `strided`
// The error for a type that is not a family.
#include <support/tiny_mdspan.hpp>

struct nothing {};
#ifdef FERRY_COMPILE_FAIL
using family = nothing;
#else
using family = tiny::family;
#endif
auto span(ferry::typed_view<float, 2, ferry::access_from::host, ferry::layout::contiguous> v) {
    return ferry::to_mdspan<family>(v);
}
