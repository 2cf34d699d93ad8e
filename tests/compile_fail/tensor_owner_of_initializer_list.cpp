// expect: pointers, numbers and views own no memory: pass the owner, such as a std::shared_ptr
// also: try_make_managed
// The same for an initializer list.
#include <ferry/tensor/make_managed.hpp>

#include <initializer_list>
#include <utility>
#include <vector>

auto managed(std::vector<float> vector, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(std::initializer_list<float>{1, 2}, v);
#else
    return ferry::make_managed(std::move(vector), v);
#endif
}
