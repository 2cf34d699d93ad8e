// expect: unknown array type: specialise ferry::array_traits<T>
// also: try_to_dlpack
// A type without an adapter.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
#ifndef FERRY_COMPILE_FAIL
    ferry::tensor_view ferry_view() { return {&value, {}}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(std::move(a), ferry::request{}); }
