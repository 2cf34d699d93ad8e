// expect: the argument is not a back end: it must satisfy ferry::back_end
// also: try_to_host
// A memory space instead of a back end.
#include <ferry/exchange/to_host.hpp>

#include <utility>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() { return {&value, {}}; }
};

auto imported(array& a) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_host(std::move(a), space);
#else
    return ferry::to_host(std::move(a), ferry::destination{space});
#endif
}
// next case
// also: try_to_dlpack
// A memory space instead of a back end.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() { return {&value, {}}; }
};

auto exported(array& a) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::always}, space);
#else
    return ferry::to_dlpack(std::move(a), {.copy = ferry::copy_policy::always}, ferry::destination{space});
#endif
}
// next case
// also: try_to
// A memory space instead of a back end.
#include <ferry/column/to.hpp>

auto copied(ferry::column const& c) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return c.to(space, space);
#else
    return c.to(space, ferry::destination{space});
#endif
}
// next case
// also: try_copy
// A memory space instead of a back end.
#include <ferry/space/copy.hpp>

auto copied(ferry::tensor_view const& to, ferry::tensor_view const& from) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::copy(to, from, space);
#else
    return ferry::copy(to, from, ferry::destination{space});
#endif
}
// next case
// also: try_to_dlpack
// A memory space instead of a back end.
#include <ferry/column/dlpack.hpp>

auto exported(ferry::column const& c) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(c, space);
#else
    return ferry::to_dlpack(c, ferry::destination{space});
#endif
}
// next case
// also: try_to_tensor
// A memory space instead of a back end.
#include <ferry/column/dlpack.hpp>

auto exported(ferry::column const& c) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_tensor(c, space);
#else
    return ferry::to_tensor(c, ferry::destination{space});
#endif
}
// next case
// also: try_to_host
// A memory space instead of a back end.
#include <ferry/exchange/to_host.hpp>

auto copied(ferry::tensor_view const& v) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_host(v, space, ferry::already_ready);
#else
    return ferry::to_host(v, ferry::destination{space}, ferry::already_ready);
#endif
}
// next case
// also: try_from_tensors
// A memory space instead of a back end.
#include <ferry/column/from_tensors.hpp>

#include <utility>

auto made(ferry::managed_tensor& data) {
    ferry::host_space const space;
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_tensors(std::move(data), {}, space);
#else
    return ferry::from_tensors(std::move(data), {}, ferry::destination{space});
#endif
}
