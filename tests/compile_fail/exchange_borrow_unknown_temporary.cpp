// expect: unknown array type: specialise ferry::array_traits<T>
// also: try_borrow
// A temporary of a type without an adapter: a variable of that type does not compile either.
#include <ferry/exchange/borrow.hpp>

#include <vector>

void lend(void (*callee)(DLTensor const*), std::vector<float>& values) {
    std::int64_t const extents[] = {static_cast<std::int64_t>(values.size())};
#ifdef FERRY_COMPILE_FAIL
    auto const lent = ferry::borrow(std::vector<float>(values));
#else
    auto const lent = ferry::borrow(ferry::tensor_view{values.data(), extents});
#endif
    callee(lent.dltensor());
}
