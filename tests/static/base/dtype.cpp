#include <ferry/base/dtype.hpp>

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

using ferry::data_type;
using ferry::dtype_of;
using ferry::element;
using ferry::packed_type;
using ferry::type_code;
using ferry::detail::complex_like;

// Types of users: a half, a bfloat16 and an FP8 class, a vector, and types without a data type.
struct my_half {
    std::uint16_t bits;
};
struct my_bfloat {
    std::uint16_t bits;
};
struct my_fp8 {
    std::uint8_t bits;
};
struct my_vector {
    float x, y;
};
struct my_complex {  // as thrust::complex and cuda::std::complex
    using value_type = double;
    double re, im;
    [[nodiscard]] double real() const { return re; }
    [[nodiscard]] double imag() const { return im; }
};
struct unknown {
    float x;
};
struct padded_complex : my_complex {
    int more;
};
struct not_a_data_type {};
enum class colour : int { red };
enum plain { one };

template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
template <>
struct ferry::dtype_traits<my_bfloat> {
    static constexpr data_type value{type_code::bfloat, 16};
};
template <>
struct ferry::dtype_traits<my_fp8> {
    static constexpr data_type value{type_code::float8_e4m3fn, 8};
};
template <>
struct ferry::dtype_traits<my_vector> {
    static constexpr data_type value{type_code::float_, 32, 2};
};
template <>
struct ferry::dtype_traits<not_a_data_type> {
    static constexpr char const* value = "float";
};

static_assert(std::regular<data_type> && std::is_trivially_copyable_v<data_type>);
static_assert(sizeof(data_type) == sizeof(DLDataType) && alignof(data_type) == alignof(DLDataType));
static_assert(sizeof(type_code) == 1);
static_assert(!std::is_convertible_v<DLDataType, data_type> && std::is_constructible_v<data_type, DLDataType>);

// R16, R17
static_assert(dtype_of<bool> == data_type{type_code::bool_, 8});
static_assert(dtype_of<std::int8_t> == data_type{type_code::int_, 8});
static_assert(dtype_of<std::uint16_t> == data_type{type_code::uint, 16});
static_assert(dtype_of<std::int32_t> == data_type{type_code::int_, 32});
static_assert(dtype_of<long> == data_type{type_code::int_, 8 * sizeof(long)} &&  // 32 bits on Windows
              dtype_of<long long> == data_type{type_code::int_, 64});
static_assert(dtype_of<char>.bits == 8 && dtype_of<unsigned char> == data_type{type_code::uint, 8});
static_assert(dtype_of<float> == data_type{type_code::float_, 32} &&
              dtype_of<double> == data_type{type_code::float_, 64});
static_assert(dtype_of<std::complex<float>> == data_type{type_code::complex, 64});
static_assert(dtype_of<std::complex<double>> == data_type{type_code::complex, 128});
static_assert(dtype_of<my_complex> == data_type{type_code::complex, 128});
static_assert(dtype_of<float const> == dtype_of<float> && dtype_of<float volatile> == dtype_of<float>);
#if FERRY_HAS_FLOAT16
static_assert(dtype_of<_Float16> == data_type{type_code::float_, 16});
#endif
#if FERRY_HAS_STD_BFLOAT16
static_assert(dtype_of<decltype(0.0bf16)> == data_type{type_code::bfloat, 16});
#endif

// Types of users.
static_assert(element<my_half> && dtype_of<my_half const> == data_type{type_code::float_, 16});
static_assert(dtype_of<my_bfloat>.code == type_code::bfloat && dtype_of<my_fp8>.bits == 8 &&
              dtype_of<my_vector>.lanes == 2);

// Types without a data type.
static_assert(!element<unknown> && !element<colour> && !element<plain> && !element<not_a_data_type>);
static_assert(!element<void> && !element<float*> && !element<float&> && !element<float[2]> && !element<std::nullptr_t>);
constexpr bool has_wide_double = sizeof(long double) > sizeof(double);  // which DLPack has no type for; not in the ABI of MSVC
static_assert(!element<long double> && element<std::complex<long double>> == !has_wide_double);
static_assert(!element<wchar_t> && !element<char8_t> && !element<char16_t> && !element<char32_t>);
static_assert(!element<std::string_view>);

static_assert(complex_like<std::complex<float>> && complex_like<my_complex>);
static_assert(!complex_like<float> && !complex_like<std::complex<int>> && !complex_like<padded_complex>);
static_assert(!complex_like<std::string_view> && complex_like<std::complex<long double>> == !has_wide_double);

// R18, R19
static_assert(packed_type<ferry::int4_t> && packed_type<ferry::uint4_t const> && packed_type<ferry::float6_e3m2fn>);
static_assert(packed_type<ferry::float4_e2m1fn> && packed_type<ferry::packed_element<type_code::uint, 1>>);
static_assert(!packed_type<std::int8_t> && !packed_type<my_fp8> && !packed_type<unknown>);
static_assert(dtype_of<ferry::float4_e2m1fn>.bits == 4 && dtype_of<ferry::float6_e2m3fn>.bits == 6);
static_assert(std::equality_comparable<ferry::int4_t> && sizeof(ferry::int4_t) == 1 &&
              std::is_trivially_copyable_v<ferry::int4_t>);
static_assert(!std::same_as<ferry::int4_t, ferry::uint4_t>);

static_assert(is_valid(dtype_of<float>) && !is_valid(data_type{type_code::float_, 4}));
static_assert(data_type{} == dtype_of<float>);

// DLPack has no code for untyped bytes.
static_assert(ferry::dtype_of<std::byte> == ferry::dtype_of<std::uint8_t>);
