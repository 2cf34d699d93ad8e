// expect: ferry needs GCC 12 or Clang 16, or newer: compile with one of them
// with: -U__GNUC__ -U__clang__
#include <ferry/config.hpp>
