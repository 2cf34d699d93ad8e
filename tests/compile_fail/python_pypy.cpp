// expect: ferry/python needs CPython, whose internals PyPy does not have: exchange tensors in C\+\+ with ferry/ferry.hpp
// with: -DPYPY_VERSION="7.3"
// PyPy has CPython's headers, but neither its types nor their version tags.
#include <ferry/python/api.hpp>
