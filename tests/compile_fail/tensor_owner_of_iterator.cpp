// expect: pointers, numbers and views own no memory: pass the owner, such as a std::shared_ptr
// also: try_make_managed
// The same for an iterator.
#include <ferry/tensor/make_managed.hpp>

#include <utility>
#include <vector>

auto managed(std::vector<float> vector, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(vector.begin(), v);
#else
    return ferry::make_managed(std::move(vector), v);
#endif
}
