// expect: ferry: array_traits<T>::vector_elements and padded_elements must be public, static constexpr bool
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

struct grid {
    ferry::managed_tensor tensor;
};

template <>
struct ferry::array_traits<grid> {
#ifdef FERRY_COMPILE_FAIL
    static inline bool vector_elements = true;
#else
    static constexpr bool vector_elements = true;
#endif
    static grid adopt(managed_tensor t) { return {std::move(t)}; }
};

grid import(DLManagedTensorVersioned* raw) { return ferry::from_dlpack<grid>(raw, ferry::request{}); }
