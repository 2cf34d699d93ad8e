// expect: nanobind not found: install nanobind
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/python/nanobind.hpp>
#endif
