// expect: column::to needs #include <ferry/column/to.hpp>
#include <ferry/column/column.hpp>
#ifndef FERRY_COMPILE_FAIL
#include <ferry/column/to.hpp>
#endif

ferry::column on_the_host(ferry::column const& c) { return c.to(ferry::cpu); }
