// expect: the function must return a view of the owner: pass a lambda, not a pointer to a member
// also: try_make_managed
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>
#include <utility>

struct array {
    float elements[2];
    std::int64_t shape[1] = {2};
    ferry::tensor_view view() { return {elements, shape}; }
};

auto managed(array a) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(std::move(a), &array::view);
#else
    return ferry::make_managed(std::move(a), [](array& owner) { return owner.view(); });
#endif
}
// next case
// also: try_make_managed
// A function that returns the address of the elements.
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>
#include <utility>

struct array {
    float elements[2];
    std::int64_t shape[1] = {2};
    ferry::tensor_view view() { return {elements, shape}; }
};

auto managed(array a) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(std::move(a), [](array& owner) { return &owner.elements[0]; });
#else
    return ferry::make_managed(std::move(a), [](array& owner) { return owner.view(); });
#endif
}
