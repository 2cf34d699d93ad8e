// ferry: element types, at run time (data_type) and at compile time (dtype_of<T>).
#pragma once

#include <ferry/abi/dlpack.hpp>
#include <ferry/base/checked.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace ferry::inline v0 {

/// What the bits of an element mean (R16).
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

/// An element type: meaning, bits of one lane's value, and lanes of a short vector. `bits` counts a whole complex
/// number (R17). A value type; any bit pattern may arrive in it, `is_valid` says whether it means something.
struct data_type {
    type_code code = type_code::float_;
    std::uint8_t bits = 32;
    std::uint16_t lanes = 1;

    constexpr data_type() = default;
    constexpr data_type(type_code c, std::uint8_t b, std::uint16_t l = 1) noexcept : code{c}, bits{b}, lanes{l} {}
    constexpr explicit data_type(DLDataType t) noexcept : code{type_code{t.code}}, bits{t.bits}, lanes{t.lanes} {}

    [[nodiscard]] constexpr DLDataType to_abi() const noexcept {
        return {static_cast<std::uint8_t>(code), bits, lanes};
    }

    friend constexpr bool operator==(data_type const&, data_type const&) = default;
};

/// Bits between the starts of neighbouring elements. Sub-byte elements are packed (R19) unless `padded`, when each
/// takes whole bytes (R13).
[[nodiscard]] constexpr std::int64_t bits_per_element(data_type t, bool padded = false) noexcept {
    std::int64_t const bits = std::int64_t{t.bits} * t.lanes;
    return padded ? (bits + 7) / 8 * 8 : bits;
}

/// Whether elements start within bytes, so that none of them has an address.
[[nodiscard]] constexpr bool is_packed(data_type t, bool padded = false) noexcept {
    return bits_per_element(t, padded) % 8 != 0;
}

/// The bytes of `count` elements laid out one after the other: ceil(count · bits / 8) (R19). False when it does not
/// fit.
[[nodiscard]] constexpr bool byte_count(std::int64_t count, data_type t, bool padded, std::int64_t& out) noexcept {
    std::int64_t const bits = bits_per_element(t, padded);
    // Whole groups of eight elements first: bits alone would overflow for an eighth of all sizes that fit.
    std::int64_t whole = 0, rest = count % 8 * bits;
    return detail::checked_multiply(count / 8, bits, whole) && detail::checked_add(whole, (rest + 7) / 8, out);
}

/// Whether the type means something to ferry: a known code (R3, R16) with the widths that the code allows (R17, R18).
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

/// The minor version that first named the code: what a producer must stamp at least (R4).
[[nodiscard]] constexpr std::uint32_t minor_needed(data_type t) noexcept {
    return t.code >= type_code::float8_e3m4 ? 1u : 0u;
}

/// Writes the usual name: "float32", "complex64", "float8_e4m3fn", "uint8x4"; for messages.
constexpr message& operator<<(message& out, data_type t) noexcept {
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

constexpr message& operator<<(message&& out, data_type t) noexcept { return out << t; }

/// An element of a packed type, by value: the low bits of `bits`. Packed elements have no address, so views yield
/// these.
template <type_code Code, std::uint8_t Bits>
struct packed_element {
    std::uint8_t bits;
    friend constexpr bool operator==(packed_element, packed_element) = default;
};
/// Signed integers of four bits, packed (R19).
using int4 = packed_element<type_code::int_, 4>;
/// Unsigned integers of four bits, packed (R19).
using uint4 = packed_element<type_code::uint, 4>;
/// Floats of six bits, three of them mantissa, packed (R18, R19).
using float6_e2m3fn = packed_element<type_code::float6_e2m3fn, 6>;
/// Floats of six bits, two of them mantissa, packed (R18, R19).
using float6_e3m2fn = packed_element<type_code::float6_e3m2fn, 6>;
/// Floats of four bits, packed (R18, R19).
using float4_e2m1fn = packed_element<type_code::float4_e2m1fn, 4>;

/// The trait to specialise for a user's type: `static constexpr ferry::data_type value{…};`
template <class T>
struct dtype_traits;

namespace detail {

/// std::complex and its likes (thrust::complex, cuda::std::complex), recognised by shape so that none of them is
/// included. Not required: arithmetic. Up to complex128: no code means long double.
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

/// A type that can be an element: dtype_traits names a data_type for it. Not required: that ferry can compute with it.
template <class T>
concept element = requires {
    // Compilers print the line that is not satisfied: keep the cure on it.
    // clang-format off
    { dtype_traits<std::remove_cv_t<T>>::value } -> std::convertible_to<data_type>;  // unknown: specialise ferry::dtype_traits<T>
    // clang-format on
};

/// The data_type of a C++ type; specialise dtype_traits for a half, bfloat16 or fp8 class of your own.
template <element T>
inline constexpr data_type dtype_of = dtype_traits<std::remove_cv_t<T>>::value;

/// Whether T is a packed element type, which has no address and is read by value. Looked at without `padded`.
template <class T>
concept packed_type = element<T> && is_packed(dtype_of<T>);

}  // namespace ferry::inline v0
