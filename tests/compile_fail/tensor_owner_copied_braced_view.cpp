// expect: the tensor takes ownership: pass std::move\(owner\), or a copy
// also: try_make_managed
// The view is a list in braces, which has no type.
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>
#include <memory>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, float* data, std::int64_t const (&extents)[2]) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(owner, {data, extents});
#else
    return ferry::make_managed(std::move(owner), {data, extents});
#endif
}
