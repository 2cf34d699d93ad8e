// expect: an mdspan has a static rank: ask for as<T, Rank>
// The rank of an mdspan is in its type.
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
constexpr int rank = ferry::dynamic_rank;
#else
constexpr int rank = 2;
#endif
void use(ferry::typed_view<float, rank, ferry::access::host, ferry::layout::contiguous> v) {
    static_cast<void>(ferry::to_mdspan<tiny::family>(v));
}
