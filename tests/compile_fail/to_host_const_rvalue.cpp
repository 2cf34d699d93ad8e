// expect: a const array cannot be moved, and its elements would be copied implicitly: move a non-const array
// also: try_to_host
// The same in an import to the host.
#include <ferry/exchange/to_host.hpp>

#include <utility>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() const { return {&value, {}}; }
};

#ifdef FERRY_COMPILE_FAIL
using source = array const;
#else
using source = array;
#endif

auto imported(source& a) { return ferry::to_host(std::move(a)); }
