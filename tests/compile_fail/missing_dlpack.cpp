// expect: dlpack/dlpack.h not found: `pip install apache-tvm-ffi`, and include `tvm-ffi-config --dlpack-includedir`
// lines: 20
// The header of DLPack is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <version>
#define __has_include(x) 0
#endif
#include <ferry/ferry.hpp>
