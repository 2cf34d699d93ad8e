// expect: the host must not dereference these elements: pass a family with device_contiguous and device_strided
// An mdspan of device memory needs an accessor that says so.
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
constexpr auto where = ferry::access::device;
#else
constexpr auto where = ferry::access::host;
#endif
auto span(ferry::typed_view<float, 2, where, ferry::layout::contiguous> v) { return ferry::to_mdspan<tiny::family>(v); }
