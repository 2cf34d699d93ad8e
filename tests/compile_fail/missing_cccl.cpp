// expect: cuda/std/mdspan not found: add the include directory of CCCL
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/adapters/mdspan_cccl.hpp>
#endif
