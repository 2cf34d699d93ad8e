// expect: array_traits<T>::current_stream must be public, static ferry::stream_token current_stream\(ferry::device\)
// Array types that are only imported are checked as well.
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

struct array {
    ferry::managed_tensor tensor;
};

template <>
struct ferry::array_traits<array> {
    static array adopt(managed_tensor&& m) { return {std::move(m)}; }
#ifdef FERRY_COMPILE_FAIL
    static stream_token current_stream() { return stream_token::cuda_legacy_default(); }
#else
    static stream_token current_stream(device) { return stream_token::cuda_legacy_default(); }
#endif
};

array imported(DLManagedTensorVersioned* raw) { return ferry::from_dlpack<array>(raw); }
// next case
// Each device has its own current stream.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static stream_token current_stream(device_type) { return stream_token::cuda_legacy_default(); }
#else
    static stream_token current_stream(device) { return stream_token::cuda_legacy_default(); }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
