// expect: pointers, numbers and views own no memory: pass the owner, such as a std::shared_ptr
// also: try_make_managed
// The same for a view, also as an lvalue.
#include <ferry/tensor/make_managed.hpp>

#include <memory>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, [[maybe_unused]] float* data, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    static_cast<void>(owner);
    return ferry::make_managed(v, v);
#else
    return ferry::make_managed(std::move(owner), v);
#endif
}
