// expect: pointers, numbers and views own no memory: pass the owner, such as a std::shared_ptr
// also: try_make_managed
// nullptr owns nothing.
#include <ferry/tensor/make_managed.hpp>

#include <memory>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, [[maybe_unused]] float* data, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    static_cast<void>(owner);
    return ferry::make_managed(nullptr, v);
#else
    return ferry::make_managed(std::move(owner), v);
#endif
}
// next case
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
// next case
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
// next case
// also: try_make_managed
// The same for a number.
#include <ferry/tensor/make_managed.hpp>

#include <memory>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, [[maybe_unused]] float* data, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    static_cast<void>(owner);
    return ferry::make_managed(0, v);
#else
    return ferry::make_managed(std::move(owner), v);
#endif
}
// next case
// also: try_make_managed
// A pointer releases no memory.
#include <ferry/tensor/make_managed.hpp>

#include <memory>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, [[maybe_unused]] float* data, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    static_cast<void>(owner);
    return ferry::make_managed(data, v);
#else
    return ferry::make_managed(std::move(owner), v);
#endif
}
// next case
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
// next case
// also: try_make_managed
// The same for a typed view.
#include <ferry/tensor/make_managed.hpp>

#include <memory>
#include <utility>

auto managed(std::unique_ptr<float[]> owner, [[maybe_unused]] float* data, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    static_cast<void>(owner);
    return ferry::make_managed(ferry::as<float, 2>(v), v);
#else
    return ferry::make_managed(std::move(owner), v);
#endif
}
// next case
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
// next case
// also: try_make_managed
// The same for a reference.
#include <ferry/tensor/make_managed.hpp>

#include <functional>
#include <utility>
#include <vector>

auto managed(std::vector<float> vector, ferry::tensor_view const& v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::make_managed(std::ref(vector), v);
#else
    return ferry::make_managed(std::move(vector), v);
#endif
}
// next case
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
