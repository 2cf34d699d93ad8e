// expect: ferry needs pointers and longs of 64 bits: .* without -m32
// with: -U__LP64__
#include <ferry/ferry.hpp>
