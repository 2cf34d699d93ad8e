// The engines of a program with an embedded interpreter that compiles them once, for unit_python_compiled.
#include <ferry/python/src.hpp>
#include <ferry/src.hpp>
