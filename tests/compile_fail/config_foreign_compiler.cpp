// expect: ferry needs GCC 12 or Clang 16, or newer: compile with one of them
// with: -U__GNUC__
#include <ferry/config.hpp>
