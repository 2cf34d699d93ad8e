// expect: the device is not a ferry::device: convert it, for example to ferry::device\{ferry::device_type::cuda, id\}
// A device tag of the library.
#include <ferry/tensor/inplace_view.hpp>

enum class place { host, gpu };
struct array {
    float* data;
    std::int64_t extents[2];
    place where;
};

ferry::tensor_view view(array& a) {
#ifdef FERRY_COMPILE_FAIL
    return {a.data, a.extents, {}, a.where};
#else
    return {a.data, a.extents, {}, a.where == place::gpu ? ferry::device{ferry::device_type::cuda} : ferry::cpu};
#endif
}
// next case
// A device tag of the library.
#include <ferry/tensor/inplace_view.hpp>

enum class place { host, gpu };
struct array {
    float* data;
    std::int64_t extents[2];
    place where;
};

ferry::inplace_view<2> view(array& a) {
#ifdef FERRY_COMPILE_FAIL
    return {a.data, {2, 3}, {}, a.where};
#else
    return {a.data, {2, 3}, {}, a.where == place::gpu ? ferry::device{ferry::device_type::cuda} : ferry::cpu};
#endif
}
