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
