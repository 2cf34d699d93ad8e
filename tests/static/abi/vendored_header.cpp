// FERRY_DLPACK_HEADER names the header that is included.
#define FERRY_DLPACK_HEADER <support/vendored_dlpack.hpp>
#include <ferry/abi/dlpack.hpp>

#if !defined(SUPPORT_VENDORED_DLPACK)
#error "the header was not included"
#endif
