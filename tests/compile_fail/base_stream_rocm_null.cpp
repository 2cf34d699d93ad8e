// expect: a null stream is ambiguous: use rocm_default\(\)
// ROCm's default stream is requested by name (R45).
#include <ferry/base/stream_token.hpp>

#ifdef FERRY_COMPILE_FAIL
auto token = ferry::stream_token::rocm(nullptr);
#else
auto token = ferry::stream_token::rocm_default();
#endif
