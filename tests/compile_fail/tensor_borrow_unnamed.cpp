// expect: the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable
// also: try_dltensor
// The borrowed_tensor contains the struct.
#include <ferry/exchange/borrow.hpp>

int rank(ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    DLTensor const* const t = ferry::borrowed_tensor{v}.dltensor();
#else
    ferry::borrowed_tensor const loan{v};
    DLTensor const* const t = loan.dltensor();
#endif
    return t->ndim;
}
