// expect: a managed_tensor has one owner and cannot be shared: pass std::move\(tensor\) of a tensor that is not const
// also: try_from_dlpack
// A const tensor cannot be moved.
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

#ifdef FERRY_COMPILE_FAIL
using source = ferry::managed_tensor const;
#else
using source = ferry::managed_tensor;
#endif

auto imported(source& tensor) { return ferry::from_dlpack<ferry::managed_tensor>(std::move(tensor)); }
