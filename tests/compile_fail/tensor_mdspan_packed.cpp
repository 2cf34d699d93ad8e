// expect: packed elements have no address: index the typed_view
// also: try_to_mdspan
// An mdspan returns references (R19).
#include <support/tiny_mdspan.hpp>

#ifdef FERRY_COMPILE_FAIL
using element = ferry::int4_t;
#else
using element = signed char;
#endif
auto span(ferry::typed_view<element, 2, ferry::access_from::host, ferry::layout::contiguous> v) {
    return ferry::to_mdspan<tiny::family>(v);
}
// next case
// Several packed elements share a byte (R19).
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
using element = ferry::int4_t;
#else
using element = signed char;
#endif
auto all(ferry::typed_view<element, 2, ferry::access_from::host, ferry::layout::contiguous> v) { return v.span(); }
