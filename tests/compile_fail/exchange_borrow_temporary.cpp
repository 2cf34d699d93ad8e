// expect: the temporary dies before the callee is done
// Compilers print the deleted declaration, and with it the line of the cure.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() { return {&value, {}}; }
};

void lend(void (*callee)(DLTensor const*)) {
#ifdef FERRY_COMPILE_FAIL
    ferry::borrow(array{});
#endif
    array a;
    auto const lent = ferry::borrow(a);
    callee(lent.dltensor());
}
