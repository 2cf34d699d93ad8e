// expect: this type cannot import a tensor: add static T adopt\(ferry::managed_tensor\)
// also: try_from_dlpack
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

struct array {
    ferry::managed_tensor tensor;
};

template <>
struct ferry::array_traits<array> {
#ifndef FERRY_COMPILE_FAIL
    static array adopt(managed_tensor m) { return {std::move(m)}; }
#endif
};

array imported(DLManagedTensorVersioned* raw) { return ferry::from_dlpack<array>(raw); }
