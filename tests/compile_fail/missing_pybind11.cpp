// expect: pybind11 not found: install pybind11
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/python/pybind11.hpp>
#endif
