// expect: ferry: array_traits<T>::lend_read_only must be public, static constexpr bool
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array const& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static inline bool lend_read_only = true;
#else
    static constexpr bool lend_read_only = true;
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
