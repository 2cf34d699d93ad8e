// expect: the pointer is not a cudaStream_t
#include <ferry/base/stream_token.hpp>

#include <string>

#ifdef FERRY_COMPILE_FAIL
auto token(std::string* stream) { return ferry::stream_token::cuda(stream); }
#else
auto token(CUstream_st* stream) { return ferry::stream_token::cuda(stream); }
#endif
