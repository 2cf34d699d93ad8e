// expect: an mdspan has a static rank: call as<T, Rank>
// also: try_to_mdspan
// The rank of an mdspan is in its type.
#include <support/tiny_mdspan.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr int rank = ferry::dynamic_rank;
#else
constexpr int rank = 2;
#endif
void use(ferry::typed_view<float, rank, ferry::access_from::host, ferry::layout::contiguous> v) {
    static_cast<void>(ferry::to_mdspan<tiny::family>(v));
}
