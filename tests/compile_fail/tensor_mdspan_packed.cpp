// expect: packed elements have no address: index the typed_view
// An mdspan gives references (R19).
#include <ferry/tensor/mdspan.hpp>

namespace tiny {
struct right {};
struct stride {};
template <class Index, std::size_t Rank>
struct dextents {
    template <class... I>
    explicit dextents(I...) {}
};
template <class T, class Extents, class Layout>
struct mdspan {
    using extents_type = Extents;
    mdspan(T*, Extents) {}
};
using family = ferry::mdspan_family::of<mdspan, dextents, right, stride>;
}  // namespace tiny

#ifdef FERRY_COMPILE_FAIL
using element = ferry::int4;
#else
using element = signed char;
#endif
auto span(ferry::typed_view<element, 2, ferry::access::host, ferry::layout::contiguous> v) { return ferry::to_mdspan<tiny::family>(v); }
