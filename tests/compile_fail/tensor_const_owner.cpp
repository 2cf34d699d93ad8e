// expect: the tensor takes ownership: pass std::move\(owner\), or a copy
// A const owner would be copied, and the view would reference the elements of the original.
#include <ferry/tensor/make_managed.hpp>

#include <utility>

struct owner {
    float value = 1;
};

#ifdef FERRY_COMPILE_FAIL
using source = owner const;
#else
using source = owner;
#endif

auto managed(source& o, ferry::tensor_view v) { return ferry::make_managed(std::move(o), v); }
