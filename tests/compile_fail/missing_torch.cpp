// expect: PyTorch not found: add the include directories of libtorch
// with: -nostdinc -nostdinc++
// lines: 12
// The library is not installed.
#ifdef FERRY_COMPILE_FAIL
#include <ferry/adapters/torch.hpp>
#endif
