// expect: unknown array type: specialise ferry::array_traits<T>
// also: try_to_dlpack
// A type without an adapter.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
#ifndef FERRY_COMPILE_FAIL
    ferry::tensor_view ferry_view() { return {&value, {}}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(std::move(a), ferry::request{}); }
// next case
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
// next case
// also: try_view_of
// A type without an adapter.
#include <ferry/exchange/producer.hpp>

struct array {
    float value = 1;
#ifndef FERRY_COMPILE_FAIL
    ferry::tensor_view ferry_view() { return {&value, {}}; }
#endif
};

auto described(array& a) { return ferry::view_of(a); }
// next case
// also: try_device_of
// A type without an adapter.
#include <ferry/exchange/producer.hpp>

struct array {
    float value = 1;
#ifndef FERRY_COMPILE_FAIL
    ferry::tensor_view ferry_view() { return {&value, {}}; }
#endif
};

auto described(array& a) { return ferry::device_of(a); }
// next case
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
// next case
// also: try_to_dlpack
#include <ferry/exchange/to_dlpack.hpp>

struct grid {
    float values[6];
    std::int64_t extents[2];
#ifndef FERRY_COMPILE_FAIL
    ferry::tensor_view ferry_view() { return {values, extents}; }
    ferry::tensor_view ferry_view() const { return {values, extents}; }
#endif
};

auto copy(grid const& g) { return ferry::to_dlpack(g, {.copy = ferry::copy_policy::always}); }
