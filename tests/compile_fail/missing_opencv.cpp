// expect: OpenCV not found: install OpenCV 4
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/adapters/opencv.hpp>
#endif
