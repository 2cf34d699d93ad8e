// expect: streams are not integers
// A literal 0 may mean either default stream (R44).
#include <ferry/base/stream_token.hpp>

#ifdef FERRY_COMPILE_FAIL
auto token = ferry::stream_token::cuda(0);
#else
auto token = ferry::stream_token::cuda_legacy_default();
#endif
