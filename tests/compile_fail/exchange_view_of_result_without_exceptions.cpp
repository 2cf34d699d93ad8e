// expect: deleted function
// expect: the adapter returns a result, which cannot throw its error without exceptions: call try_view_of
// with: -fno-exceptions
#include <ferry/exchange/producer.hpp>
#include <ferry/tensor/inplace_view.hpp>

struct array {
    float elements[2];
};
template <>
struct ferry::array_traits<array> {
    static result<inplace_view<1>> view(array& a) { return inplace_view<1>{a.elements, {2}}; }
};

auto described(array& a) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::view_of(a);
#else
    return ferry::try_view_of(a);
#endif
}
