// expect: Eigen not found: install Eigen 3.4
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/adapters/eigen.hpp>
#endif
