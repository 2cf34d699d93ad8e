// expect: specialise ferry::dtype_traits<T>
// The kind of an enum is unknown.
#include <ferry/base/dtype.hpp>

#include <type_traits>

enum class colour : int { red };
#ifdef FERRY_COMPILE_FAIL
auto type = ferry::dtype_of<colour>;
#else
auto type = ferry::dtype_of<std::underlying_type_t<colour>>;
#endif
// next case
// Only types with a data type can be used.
#include <ferry/base/dtype.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto type = ferry::dtype_of<my_half>;
// next case
// A view of elements needs their data type.
#include <ferry/tensor/view.hpp>

struct pixel {
    unsigned char r, g, b;
};
ferry::tensor_view view(pixel* data, ferry::shape_view shape) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::tensor_view{data, shape};
#else
    return {data, ferry::data_type{ferry::type_code::uint, 8, 3}, shape};
#endif
}
// next case
#include <ferry/tensor/inplace_view.hpp>

struct pixel {
    unsigned char r, g, b;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<pixel> {
    static constexpr data_type value{type_code::uint, 8, 3};
};
#endif
ferry::inplace_view<2> view(pixel* data) { return {data, {2, 3}}; }
