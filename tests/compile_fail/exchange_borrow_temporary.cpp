// expect: the temporary dies before the callee is done
// Compilers print the deleted declaration with the line that states the cure.
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
