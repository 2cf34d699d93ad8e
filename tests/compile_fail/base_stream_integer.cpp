// expect: streams are not integers: use rocm_default\(\) or pass the hipStream_t
// Integers exist only at the Python border (R45).
#include <ferry/base/stream_token.hpp>

#include <cstdint>

std::uintptr_t const handle = 4096;
#ifdef FERRY_COMPILE_FAIL
auto token = ferry::stream_token::rocm(handle);
#else
auto token = ferry::stream_token::native(ferry::device_type::rocm, handle);
#endif
