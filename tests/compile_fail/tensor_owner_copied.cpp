// expect: the tensor takes ownership: pass std::move\(owner\), or a copy
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
