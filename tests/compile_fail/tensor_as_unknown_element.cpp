// expect: this element type has no data type: specialise ferry::dtype_traits<T>
// also: try_as
// A typed view needs a type that has a data type.
#include <ferry/tensor/managed.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto view(ferry::managed_tensor const& t) { return t.as<my_half const, 2>(); }
// next case
// also: try_visit
// One of the types has no data type.
#include <ferry/tensor/visit.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto visited(ferry::tensor_view const& v) {
    return ferry::visit<float, my_half>(v, [](auto const& x) { return x.size(); });
}
// next case
// also: try_as
// The same for a view.
#include <ferry/tensor/as.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto view(ferry::tensor_view const& v) { return ferry::as<my_half>(v); }
// next case
// A function with a parameter of the type.
#include <ferry/tensor/typed_view.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto length(ferry::typed_view<my_half, 2> v) { return v.extent(0); }
// next case
// also: try_visit
// The same with a rank.
#include <ferry/tensor/visit.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto visited(ferry::tensor_view const& v) {
    return ferry::visit<2, my_half>(v, [](auto const& x) { return x.size(); });
}
