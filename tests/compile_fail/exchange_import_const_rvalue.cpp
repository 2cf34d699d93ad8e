// expect: a const array cannot be moved, and its elements would be copied implicitly: move a non-const array
// also: try_from_dlpack
// The same in an import.
#include <ferry/exchange/from_dlpack.hpp>

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

auto imported(source& a) { return ferry::from_dlpack<ferry::managed_tensor>(std::move(a), {.copy = ferry::copy_policy::never}); }
