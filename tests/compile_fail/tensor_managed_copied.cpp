// expect: (use of deleted function|call to implicitly-deleted copy constructor).*managed_tensor
// A tensor has one owner (R68).
#include <ferry/tensor/managed.hpp>

#include <utility>

auto keep(ferry::managed_tensor& t) {
#ifdef FERRY_COMPILE_FAIL
    ferry::managed_tensor mine = t;
#else
    ferry::managed_tensor mine = std::move(t);
#endif
    return mine;
}
