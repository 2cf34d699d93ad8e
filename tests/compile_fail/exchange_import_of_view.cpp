// expect: a view owns no memory that a tensor could share: import its owner, or a copy
// also: try_from_dlpack
// A tensor_view is not a producer, and array_traits<tensor_view> is not the fix.
#include <ferry/exchange/from_dlpack.hpp>

auto imported(ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack<ferry::managed_tensor>(v);
#else
    return ferry::from_dlpack<ferry::managed_tensor>(ferry::to_dlpack(v, {.copy = ferry::copy_policy::always}));
#endif
}
