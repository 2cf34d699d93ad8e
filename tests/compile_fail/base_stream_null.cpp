// expect: a null stream is ambiguous
// A null stream may mean either default stream (R44).
#include <ferry/base/stream_token.hpp>

#ifdef FERRY_COMPILE_FAIL
auto token = ferry::stream_token::cuda(nullptr);
#else
auto token = ferry::stream_token::cuda_per_thread_default();
#endif
