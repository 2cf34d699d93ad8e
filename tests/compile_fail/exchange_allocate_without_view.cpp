// expect: array_traits<T>::allocate needs array_traits<T>::view
// The view has the device of the new memory.
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

struct array {
    ferry::managed_tensor tensor;
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
#ifndef FERRY_COMPILE_FAIL
    static tensor_view view(array& a) { return {&a.value, {}}; }
#endif
    static array allocate(data_type, shape_view, device) { return {}; }
    static array adopt(managed_tensor m) { return {std::move(m)}; }
};

array imported(DLManagedTensorVersioned* raw) { return ferry::from_dlpack<array>(raw); }
