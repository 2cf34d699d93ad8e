// expect: Python.h not found: install the headers of CPython, and with CMake link ferry::python
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/python/api.hpp>
#endif
