// expect: the borrowed_tensor would outlive the temporary array
// also: try_borrow
// Compilers print the deleted declaration, which contains the fix.
#include <ferry/exchange/borrow.hpp>

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
