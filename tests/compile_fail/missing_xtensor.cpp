// expect: xtensor not found: install xtensor
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/adapters/xtensor.hpp>
#endif
