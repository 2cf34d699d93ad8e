// expect: ferry needs (GCC 12|Clang 16) or newer: select one
// with: -U__GNUC__ -D__GNUC__=11 -U__clang_major__ -D__clang_major__=15
#include <ferry/config.hpp>
