// expect: pointers, numbers and views own no memory: pass the owner, such as a std::shared_ptr
// also: try_make_managed
// The same for a span.
#include <ferry/tensor/make_managed.hpp>

#include <memory>
#include <span>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, [[maybe_unused]] float* data, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    static_cast<void>(owner);
    return ferry::make_managed(std::span{data, 2}, v);
#else
    return ferry::make_managed(std::move(owner), v);
#endif
}
