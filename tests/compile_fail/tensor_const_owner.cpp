// expect: the tensor takes its owner over: std::move it in, or move a copy
// A const owner cannot be moved: a copy of it would not own the elements of the view.
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
