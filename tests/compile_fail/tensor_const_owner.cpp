// expect: the tensor takes ownership: pass std::move\(owner\), or a copy
// A const owner would be copied, and the view would reference the elements of the original.
#include <ferry/tensor/make_managed.hpp>

#include <utility>

struct owner {
    float value = 1;
};

#ifdef FERRY_COMPILE_FAIL
using source = owner const;
#else
using source = owner;
#endif

auto managed(source& o, ferry::tensor_view v) { return ferry::make_managed(std::move(o), v); }
// next case
// also: try_make_managed
// The owner is moved (D11).
#include <ferry/tensor/make_managed.hpp>

struct array {
    float* data;
};
auto own(array a, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(a, v);
#else
    return ferry::make_managed(std::move(a), v);
#endif
}
// next case
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
