// expect: no mdspan here: pass a family that has `contiguous` and `strided`
// What is no family meets a sentence.
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

struct nothing {};
#ifdef FERRY_COMPILE_FAIL
using family = nothing;
#else
using family = tiny::family;
#endif
auto span(ferry::typed_view<float, 2, ferry::access::host, ferry::layout::contiguous> v) { return ferry::to_mdspan<family>(v); }
