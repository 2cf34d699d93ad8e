// expect: array_traits<T>::adopt must be public, static T adopt\(ferry::managed_tensor\) or static T adopt\(ferry::managed_tensor, ferry::stream_token\).*not as a handle
// The second parameter is a stream_token, which has the family of its stream.
#include <ferry/exchange/from_dlpack.hpp>

struct array {
    ferry::managed_tensor tensor;
};

template <>
struct ferry::array_traits<array> {
#ifdef FERRY_COMPILE_FAIL
    static array adopt(managed_tensor m, void*) { return {std::move(m)}; }
#else
    static array adopt(managed_tensor m, stream_token) { return {std::move(m)}; }
#endif
};

auto imported(ferry::managed_tensor m) { return ferry::from_dlpack<array>(std::move(m), {}); }
