// expect: only a managed_tensor or a view needs the stream: an array states it by array_traits<T>::ready_on
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
