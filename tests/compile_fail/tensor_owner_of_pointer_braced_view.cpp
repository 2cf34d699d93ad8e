// expect: pointers, numbers and views own no memory: pass the owner, such as a std::shared_ptr
// also: try_make_managed
// The view is a list in braces, which has no type.
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>
#include <memory>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, float* data, std::int64_t const (&extents)[2]) {
#ifdef FERRY_COMPILE_FAIL
    static_cast<void>(owner);
    return ferry::make_managed(data, {data, extents});
#else
    return ferry::make_managed(std::move(owner), {data, extents});
#endif
}
