// expect: ferry needs C\+\+20: compile with -std=c\+\+20
// with: -std=c++17
// lines: 16
#include <ferry/ferry.hpp>
