// expect: array_traits<T>::owns must be public, static constexpr bool owns
// As an operand of a condition a function is true, whatever it returns (D13).
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float* value;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static constexpr bool owns() { return false; }
#else
    static constexpr bool owns = false;
#endif
};

auto exported(array& a) { return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::always}); }
