// ferry: data types of elements, at run time (data_type) and at compile time (dtype_of<T>).
#pragma once

#include <ferry/abi/dlpack.hpp>
#include <ferry/base/detail/checked.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/config.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace FERRY_NAMESPACE {

/// Type codes, with the values of `DLDataTypeCode` (R16). `bcomplex` is not yet in a released DLPack header.
enum class type_code : std::uint8_t {
    int_ = abi::code::int_,
    uint = abi::code::uint,
    float_ = abi::code::float_,
    opaque_handle = abi::code::opaque_handle,
    bfloat = abi::code::bfloat,
    complex = abi::code::complex,
    bool_ = abi::code::bool_,
    float8_e3m4 = abi::code::float8_e3m4,
    float8_e4m3 = abi::code::float8_e4m3,
    float8_e4m3b11fnuz = abi::code::float8_e4m3b11fnuz,
    float8_e4m3fn = abi::code::float8_e4m3fn,
    float8_e4m3fnuz = abi::code::float8_e4m3fnuz,
    float8_e5m2 = abi::code::float8_e5m2,
    float8_e5m2fnuz = abi::code::float8_e5m2fnuz,
    float8_e8m0fnu = abi::code::float8_e8m0fnu,
    float6_e2m3fn = abi::code::float6_e2m3fn,
    float6_e3m2fn = abi::code::float6_e3m2fn,
    float4_e2m1fn = abi::code::float4_e2m1fn,
    bcomplex = abi::code::bcomplex,
};

/// A data type: its type code, the number of bits in one lane, and the number of lanes. `bits` of a complex type
/// includes both parts (R17). The constructors do not check the values; `is_valid` does.
struct data_type {
    type_code code = type_code::float_;
    std::uint8_t bits = 32;
    std::uint16_t lanes = 1;

    /// Constructs float32.
    constexpr data_type() = default;
    /// Constructs a data type.
    ///
    /// \param c  type code
    /// \param b  number of bits in one lane
    /// \param l  number of lanes
    constexpr data_type(type_code c, std::uint8_t b, std::uint16_t l = 1) noexcept : code{c}, bits{b}, lanes{l} {}
    /// Constructs a data type from a DLPack struct. Does not check the values.
    ///
    /// \param t  DLPack struct
    constexpr explicit data_type(DLDataType t) noexcept : code{type_code{t.code}}, bits{t.bits}, lanes{t.lanes} {}

    /// Converts to the DLPack struct.
    ///
    /// \return  struct with the same values
    [[nodiscard]] constexpr DLDataType to_abi() const noexcept {
        return {static_cast<std::uint8_t>(code), bits, lanes};
    }

    friend constexpr bool operator==(data_type const& a, data_type const& b) noexcept {
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);  // one comparison
    }
};

/// Returns the distance between adjacent elements, in bits.
///
/// \param t       data type
/// \param padded  whether sub-byte elements are padded to whole bytes (R13); otherwise they are packed (R19)
/// \return        number of bits
[[nodiscard]] constexpr std::int64_t bits_per_element(data_type t, bool padded = false) noexcept {
    std::int64_t const bits = std::int64_t{t.bits} * t.lanes;
    return padded ? (bits + 7) / 8 * 8 : bits;
}

/// Returns whether elements are packed, that is, not byte-aligned and therefore without an address.
///
/// \param t       data type
/// \param padded  whether sub-byte elements are padded to whole bytes (R13)
/// \return        true when the size of an element is not a whole number of bytes
[[nodiscard]] constexpr bool is_packed(data_type t, bool padded = false) noexcept {
    return bits_per_element(t, padded) % 8 != 0;
}

/// Computes the size of `count` adjacent elements, ceil(count · bits / 8) bytes (R19).
///
/// \param count   number of elements
/// \param t       data type
/// \param padded  whether sub-byte elements are padded to whole bytes (R13)
/// \param out     number of bytes
/// \return        false when the size does not fit in std::int64_t (R32)
[[nodiscard]] constexpr bool byte_count(std::int64_t count, data_type t, bool padded, std::int64_t& out) noexcept {
    std::int64_t const bits = bits_per_element(t, padded);
    // Counts groups of eight elements, because the number of bits may overflow although the number of bytes does not.
    std::int64_t whole = 0, rest = count % 8 * bits;
    return detail::checked_multiply(count / 8, bits, whole) && detail::checked_add(whole, (rest + 7) / 8, out);
}

/// Returns whether DLPack defines a data type.
///
/// \param t  data type
/// \return   true when the code is known (R3, R16), the number of bits is valid for it (R17, R18), and there is at
///           least one lane
[[nodiscard]] constexpr bool is_valid(data_type t) noexcept {
    if (t.bits == 0 || t.lanes == 0) return false;
    bool const whole = t.bits % 8 == 0;
    switch (t.code) {
        case type_code::int_:
        case type_code::uint: return whole || t.bits < 8;
        case type_code::float_:
        case type_code::opaque_handle: return whole;
        case type_code::bfloat: return t.bits == 16;
        case type_code::complex: return t.bits % 16 == 0;
        case type_code::bcomplex: return t.bits == 32;
        case type_code::bool_:
        case type_code::float8_e3m4:
        case type_code::float8_e4m3:
        case type_code::float8_e4m3b11fnuz:
        case type_code::float8_e4m3fn:
        case type_code::float8_e4m3fnuz:
        case type_code::float8_e5m2:
        case type_code::float8_e5m2fnuz:
        case type_code::float8_e8m0fnu: return t.bits == 8;
        case type_code::float6_e2m3fn:
        case type_code::float6_e3m2fn: return t.bits == 6;
        case type_code::float4_e2m1fn: return t.bits == 4;
    }
    return false;
}

/// Returns the lowest minor version of DLPack 1.x with which a data type can be exported (R4).
///
/// \param t  data type
/// \return   0 for the codes of DLPack 1.0; 1 for later codes, including bcomplex, which no released version defines
[[nodiscard]] constexpr std::uint32_t minor_needed(data_type t) noexcept {
    return t.code >= type_code::float8_e3m4 ? 1u : 0u;
}

/// Appends the name of a type to a text: "float32", "complex64", "float8_e4m3fn", "uint8x4". For an invalid type,
/// appends its code, bits and lanes as numbers.
///
/// \param out  text
/// \param t    data type
/// \return     `out`
FERRY_COLD constexpr inplace_text& operator<<(inplace_text& out, data_type t) noexcept {
    constexpr char const* stems[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
    constexpr char const* minifloats[] = {"float8_e3m4",     "float8_e4m3",   "float8_e4m3b11fnuz", "float8_e4m3fn",
                                          "float8_e4m3fnuz", "float8_e5m2",   "float8_e5m2fnuz",    "float8_e8m0fnu",
                                          "float6_e2m3fn",   "float6_e3m2fn", "float4_e2m1fn",      "bcomplex32"};
    auto const c = static_cast<unsigned>(t.code);
    if (c > abi::code::bcomplex || !is_valid(t)) {
        out << "(code " << c << ", bits " << unsigned{t.bits} << ", lanes " << unsigned{t.lanes} << ")";
        return out;
    }
    if (c >= abi::code::float8_e3m4) {
        out << minifloats[c - abi::code::float8_e3m4];
    } else {
        out << stems[c];
        if (t.code != type_code::bool_) out << unsigned{t.bits};
    }
    if (t.lanes != 1) out << "x" << unsigned{t.lanes};
    return out;
}

/// Appends the name of a type to a temporary text.
///
/// \param out  text
/// \param t    data type
/// \return     `out`
constexpr inplace_text& operator<<(inplace_text&& out, data_type t) noexcept { return out << t; }

/// The value of an element of a packed type, in the low bits of `bits`. Views return packed elements by value, because
/// they have no address.
template <type_code Code, std::uint8_t Bits>
struct packed_element {
    std::uint8_t bits;
    friend constexpr bool operator==(packed_element, packed_element) = default;
};
/// Packed 4-bit signed integer (R19).
using int4_t = packed_element<type_code::int_, 4>;
/// Packed 4-bit unsigned integer (R19).
using uint4_t = packed_element<type_code::uint, 4>;
/// Packed 6-bit floating-point number with three mantissa bits (R18, R19).
using float6_e2m3fn = packed_element<type_code::float6_e2m3fn, 6>;
/// Packed 6-bit floating-point number with two mantissa bits (R18, R19).
using float6_e3m2fn = packed_element<type_code::float6_e3m2fn, 6>;
/// Packed 4-bit floating-point number (R18, R19).
using float4_e2m1fn = packed_element<type_code::float4_e2m1fn, 4>;

/// Maps a C++ type to its data_type. Specialise it for other types, with a member
/// `static constexpr ferry::data_type value{…};`.
template <class T>
struct dtype_traits;

namespace detail {

/// A complex type such as std::complex, thrust::complex or cuda::std::complex; detected by its members, so that their
/// headers need not be included. At most complex128, because DLPack has no code for long double. The type need not
/// support arithmetic.
template <class T>
concept complex_like =
    std::floating_point<typename T::value_type> && sizeof(typename T::value_type) <= sizeof(double) &&
    sizeof(T) == 2 * sizeof(typename T::value_type) && requires(T const& z) {
        { z.real() } -> std::convertible_to<typename T::value_type>;
        { z.imag() } -> std::convertible_to<typename T::value_type>;
    };

template <class T>
inline constexpr std::uint8_t bits_of = static_cast<std::uint8_t>(sizeof(T) * 8);

}  // namespace detail

template <>
struct dtype_traits<bool> {
    static constexpr data_type value{type_code::bool_, 8};
};
template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
             !std::same_as<T, char16_t> && !std::same_as<T, char32_t>)
struct dtype_traits<T> {
    static constexpr data_type value{std::is_signed_v<T> ? type_code::int_ : type_code::uint, detail::bits_of<T>};
};
/// DLPack has no code for untyped bytes, so they are exported as uint8.
template <>
struct dtype_traits<std::byte> {
    static constexpr data_type value{type_code::uint, 8};
};
template <>
struct dtype_traits<float> {
    static constexpr data_type value{type_code::float_, 32};
};
template <>
struct dtype_traits<double> {
    static constexpr data_type value{type_code::float_, 64};
};
#if FERRY_HAS_FLOAT16
template <>
struct dtype_traits<_Float16> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
#if FERRY_HAS_STD_BFLOAT16
template <>
struct dtype_traits<decltype(0.0bf16)> {
    static constexpr data_type value{type_code::bfloat, 16};
};
#endif
template <detail::complex_like T>
struct dtype_traits<T> {
    static constexpr data_type value{type_code::complex, detail::bits_of<T>};
};
template <type_code Code, std::uint8_t Bits>
struct dtype_traits<packed_element<Code, Bits>> {
    static constexpr data_type value{Code, Bits};
};

/// A type for which dtype_traits has a specialisation. The type need not support arithmetic.
template <class T>
concept element = requires {
    // Compilers print the line of an unsatisfied requirement: keep the instruction on that line.
    // clang-format off
    { dtype_traits<std::remove_cv_t<T>>::value } -> std::convertible_to<data_type>;  // unknown: specialise ferry::dtype_traits<T>
    // clang-format on
};

namespace detail {

/// Returns the value of dtype_traits<T>. Checks the type with a static_assert instead of a constraint, so that its
/// message is the first error.
template <class T>
consteval data_type dtype_of_element() {
    static_assert(
        element<T>,
        "ferry: this element type has no data type: specialise ferry::dtype_traits<T> (for a half type, with static constexpr ferry::data_type value{ferry::type_code::float_, 16}); for an enumeration, use its underlying type");
    if constexpr (element<T>) return dtype_traits<T>::value;
    else return {};
}

}  // namespace detail

/// The data_type of a C++ type. Specialise dtype_traits for the half, bfloat16 and FP8 classes of other libraries. Does
/// not compile for a type that is not an `element`.
template <class T>
inline constexpr data_type dtype_of = detail::dtype_of_element<std::remove_cv_t<T>>();

/// An element type whose elements are packed, except in padded tensors (R13). Views return its elements by value.
template <class T>
concept packed_type = element<T> && is_packed(dtype_of<T>);

}  // namespace FERRY_NAMESPACE
