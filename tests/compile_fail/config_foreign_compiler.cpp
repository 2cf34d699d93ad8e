// expect: ferry needs GCC 12, Clang 16 or Visual Studio 2022 17.10, or newer: compile with one
// with: -U__GNUC__ -U__clang__
#include <ferry/config.hpp>
