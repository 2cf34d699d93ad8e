// expect: a const array cannot be moved, and its elements would be copied implicitly: move a non-const array
// also: try_to_host
// A const rvalue, in an import to the host.
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
// next case
// also: try_to_dlpack
// A move of a const array would copy it, even with copy_policy::never.
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array const& a) { return {&a.value, {}}; }
    static array adopt(managed_tensor) { return {}; }
};

#ifdef FERRY_COMPILE_FAIL
using source = array const;
#else
using source = array;
#endif

auto exported(source& a) { return ferry::to_dlpack(std::move(a)); }
auto exported_under(source& a) { return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::never}); }
auto imported(source& a) { return ferry::from_dlpack<array>(std::move(a)); }
// next case
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
