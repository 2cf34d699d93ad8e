// expect: needs an owner: move it, or borrow\(\) it, or add array_traits<T>::share
// A tensor outlives the call, so that the memory of an lvalue needs an owner.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() { return {&value, {}}; }
};

auto exported(array& a) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(a);
#else
    return ferry::to_dlpack(std::move(a));
#endif
}
