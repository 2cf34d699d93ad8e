// expect: needs an owner: pass std::move\(array\), call borrow\(\), add array_traits<T>::share
// also: try_to_dlpack
// The tensor outlives the call, so it needs an owner of the memory.
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
