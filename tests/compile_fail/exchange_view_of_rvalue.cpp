// expect: the view would outlive the temporary
// A const temporary binds to a reference to a const lvalue.
#include <ferry/exchange/producer.hpp>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() const { return {&value, {}}; }
};

array const make();

ferry::device where() {
#ifdef FERRY_COMPILE_FAIL
    return ferry::view_of(make()).device();
#else
    auto const a = make();
    return ferry::view_of(a).device();
#endif
}
