// expect: only a managed_tensor or a view needs the stream: an array states it by array_traits<T>::ready_on
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
