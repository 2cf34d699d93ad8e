// expect: does not accept a list of indices: use v\[list\] or v\.at\(list\)
#include <ferry/tensor/typed_view.hpp>

#include <vector>

float element(ferry::typed_view<float const> v, std::vector<std::int64_t> const& index) {
#ifdef FERRY_COMPILE_FAIL
    return v(index);
#else
    return v[index];
#endif
}
