// expect: array_traits<T>::current_stream must be .*return a stream_token, not a handle
// A handle does not contain its device (D5).
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static void* current_stream(device) { return nullptr; }
#else
    static stream_token current_stream(device) { return stream_token::cuda_legacy_default(); }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
