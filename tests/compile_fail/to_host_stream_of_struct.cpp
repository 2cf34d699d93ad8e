// expect: only a managed_tensor or a view needs the stream: an array states it by array_traits<T>::ready_on
// also: try_to_host
// A struct with the stream on which its data is ready.
#include <ferry/exchange/to_host.hpp>

auto exchanged(DLManagedTensorVersioned* from, ferry::host_back_end const& b, ferry::stream_token stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_host(from, b, stream);
#else
    return ferry::to_host(ferry::from_dlpack(from), b, stream);
#endif
}
// next case
// also: try_to_dlpack
// An array with the stream on which the data is ready.
#include <ferry/exchange/to_dlpack.hpp>

#include <cstdint>
#include <utility>

struct array {
    float* data;
    std::int64_t extents[1];
    ferry::tensor_view ferry_view() { return {data, extents}; }
};

auto exchanged(array from, ferry::host_back_end const& b, ferry::stream_token stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(std::move(from), {}, b, stream);
#else
    return ferry::to_dlpack(ferry::to_dlpack(std::move(from)), {}, b, stream);
#endif
}
// next case
// also: try_from_dlpack
// A struct with the stream on which its data is ready.
#include <ferry/exchange/from_dlpack.hpp>

auto exchanged(DLManagedTensorVersioned* from, ferry::host_back_end const& b, ferry::stream_token stream) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack<ferry::managed_tensor>(from, {}, b, stream);
#else
    return ferry::from_dlpack<ferry::managed_tensor>(ferry::from_dlpack(from), {}, b, stream);
#endif
}
