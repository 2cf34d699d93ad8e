// expect: (use of deleted function|call to deleted constructor).*borrowed_tensor
// A borrowed tensor cannot be moved.
#include <ferry/exchange/borrow.hpp>

#include <utility>

int rank(ferry::tensor_view const& v) {
    ferry::borrowed_tensor loan{v};
#ifdef FERRY_COMPILE_FAIL
    ferry::borrowed_tensor const other = std::move(loan);
#else
    auto const& other = loan;
#endif
    return other.view().rank();
}
