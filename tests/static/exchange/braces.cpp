// Braces in place of a request or of a stream select one overload.
#include <ferry/ferry.hpp>

#include <cstdint>
#include <utility>

namespace {

struct array {
    float data[2] = {};
    std::int64_t shape[1] = {2};
};

}  // namespace

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {a.data, a.shape}; }
    static tensor_view view(array const& a) { return {a.data, a.shape}; }
    static array share(array const& a) { return a; }
    static array adopt(managed_tensor) { return {}; }
};

#define BOTH(f, ...) static_cast<void>(ferry::f __VA_ARGS__), static_cast<void>(ferry::try_##f __VA_ARGS__)

template <class BackEnd>
static void exports(BackEnd&& b, array& a, ferry::managed_tensor& t, ferry::tensor_view const& v) {
    BOTH(to_dlpack, (a, {}));
    BOTH(to_dlpack, (a, {}, b));
    BOTH(to_dlpack, (array{}, {}, b));
    BOTH(to_dlpack, (a, {{}, {}, {}}, b));
    BOTH(to_dlpack, (a, {.stream = {}}));
    BOTH(to_dlpack, (std::move(t), {.stream = ferry::already_ready}, b, {}));
    BOTH(to_dlpack, (std::move(t), {}));
    BOTH(to_dlpack, (std::move(t), {}, b));
    BOTH(to_dlpack, (std::move(t), {}, b, {}));
    BOTH(to_dlpack, (t, {}, b, {}));
    BOTH(to_dlpack, (v, {}, b, {}));
    BOTH(to_host, (a, b));
    BOTH(to_host, (std::move(t), b, {}));
    BOTH(to_host, (t, b, {}));
    BOTH(to_host, (v, b, {}));
    BOTH(copy, (v, v, b, {}));
}

template <class Consumer, class BackEnd>
static void imports(BackEnd&& b, array& a, ferry::managed_tensor& t, DLManagedTensorVersioned* raw, DLManagedTensor* old) {
    BOTH(from_dlpack<Consumer>, (a, {}));
    BOTH(from_dlpack<Consumer>, (a, {}, b));
    BOTH(from_dlpack<Consumer>, (array{}, {}, b));
    BOTH(from_dlpack<Consumer>, (a, {{}, {}, {}}, b));
    BOTH(from_dlpack<Consumer>, (a, {.stream = {}}));
    BOTH(from_dlpack<Consumer>, (std::move(t), {.stream = ferry::already_ready}, b, {}));
    BOTH(from_dlpack<Consumer>, (std::move(t), {}));
    BOTH(from_dlpack<Consumer>, (std::move(t), {}, b));
    BOTH(from_dlpack<Consumer>, (std::move(t), {}, b, {}));
    BOTH(from_dlpack<Consumer>, (raw, {}));
    BOTH(from_dlpack<Consumer>, (raw, {}, b));
    BOTH(from_dlpack<Consumer>, (old, {}));
    BOTH(from_dlpack<Consumer>, (old, {}, b));
}

[[maybe_unused]] static void use(array& a, ferry::managed_tensor& t, ferry::tensor_view const& v,
                                 DLManagedTensorVersioned* raw, DLManagedTensor* old) {
    ferry::host_back_end mine;
    exports(mine, a, t, v);
    exports(ferry::host_only, a, t, v);
    imports<ferry::managed_tensor>(mine, a, t, raw, old);
    imports<ferry::managed_tensor>(ferry::host_only, a, t, raw, old);
    imports<array>(mine, a, t, raw, old);
    imports<array>(ferry::share_only, a, t, raw, old);
}
