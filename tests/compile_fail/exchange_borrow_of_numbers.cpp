// expect: unknown array type: specialise ferry::array_traits<T>
// also: try_borrow
// A type without an adapter, and a second argument.
#include <ferry/exchange/borrow.hpp>


auto f(ferry::tensor_view const& view, [[maybe_unused]] int number) {
#ifdef FERRY_COMPILE_FAIL
    return static_cast<void>(view), ferry::borrow(number, 5);
#else
    return ferry::borrow(view);
#endif
}
