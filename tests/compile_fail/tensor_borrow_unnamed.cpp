// expect: the loan ends with the expression: keep it in a variable
// The struct is a member of the loan.
#include <ferry/tensor/borrow.hpp>

int rank(ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    DLTensor const* const t = ferry::borrowed_tensor{v}.dltensor();
#else
    ferry::borrowed_tensor const loan{v};
    DLTensor const* const t = loan.dltensor();
#endif
    return t->ndim;
}
