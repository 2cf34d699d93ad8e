// ferry: the elements of the kit's arrays, which are 1, 2, 3, … in row-major order.
#pragma once

#include <ferry/base/dtype.hpp>
#include <ferry/tensor/view.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::conformance::detail {

/// A floating-point format of 8 or 16 bits, for positive numbers within its range.
template <class Bits, int Mantissa, int Bias>
struct small_float {
    Bits bits{};

    small_float() = default;
    /// Rounds a positive number towards zero.
    explicit small_float(std::int64_t number) noexcept {
        int const exponent = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(number))) - 1;
        std::int64_t const fraction = number - (std::int64_t{1} << exponent);
        bits = static_cast<Bits>((exponent + Bias) << Mantissa | static_cast<int>((fraction << Mantissa) >> exponent));
    }
    explicit operator double() const noexcept {
        double const fraction = std::ldexp(bits & ((1 << Mantissa) - 1), -Mantissa);
        return std::ldexp(1 + fraction, (bits >> Mantissa) - Bias);
    }
};

/// Number of mantissa bits of T. The default, 16, is enough for the kit's numbers.
template <class T>
inline constexpr int mantissa_bits = 16;
template <class Bits, int Mantissa, int Bias>
inline constexpr int mantissa_bits<small_float<Bits, Mantissa, Bias>> = Mantissa;

/// Calls f(T{}) with the C++ type of the elements, or of their real part. Returns false for types that the kit cannot
/// read: opaque handles, vectors, float8_e3m4 (its range is too small for the kit's numbers), and types of other sizes,
/// such as int4 and float128.
template <class F>
bool with_element(data_type t, F f) {
    if (!is_valid(t) || t.lanes != 1) return false;
    using u8 = std::uint8_t;
    int const bits = t.code == type_code::complex ? t.bits / 2 : t.bits;
    switch (t.code) {
        case type_code::bool_: f(std::uint8_t{}); return true;
        case type_code::int_:
            if (bits == 8) f(std::int8_t{});
            else if (bits == 16) f(std::int16_t{});
            else if (bits == 32) f(std::int32_t{});
            else if (bits == 64) f(std::int64_t{});
            else return false;
            return true;
        case type_code::uint:
            if (bits == 8) f(std::uint8_t{});
            else if (bits == 16) f(std::uint16_t{});
            else if (bits == 32) f(std::uint32_t{});
            else if (bits == 64) f(std::uint64_t{});
            else return false;
            return true;
        case type_code::float_:
        case type_code::complex:
            if (bits == 16) f(small_float<std::uint16_t, 10, 15>{});
            else if (bits == 32) f(float{});
            else if (bits == 64) f(double{});
            else return false;
            return true;
        case type_code::bfloat:
        case type_code::bcomplex: f(small_float<std::uint16_t, 7, 127>{}); return true;
        case type_code::float8_e4m3:
        case type_code::float8_e4m3fn: f(small_float<u8, 3, 7>{}); return true;
        case type_code::float8_e4m3b11fnuz: f(small_float<u8, 3, 11>{}); return true;
        case type_code::float8_e4m3fnuz: f(small_float<u8, 3, 8>{}); return true;
        case type_code::float8_e5m2: f(small_float<u8, 2, 15>{}); return true;
        case type_code::float8_e5m2fnuz: f(small_float<u8, 2, 16>{}); return true;
        case type_code::float8_e8m0fnu: f(small_float<u8, 0, 127>{}); return true;
        default: return false;
    }
}

[[nodiscard]] inline bool is_readable(data_type t) {
    return with_element(t, [](auto) {});
}
/// Reads an element by memcpy, because an adapter under test may return a misaligned pointer.
[[nodiscard]] inline double read_number(data_type t, std::byte const* from) {
    double number = 0;
    with_element(t, [&](auto element) {
        std::memcpy(&element, from, sizeof element);
        number = static_cast<double>(element);
    });
    return number;
}
/// Whether an element is `number`, or one of the two adjacent values of a type that cannot represent `number`.
[[nodiscard]] inline bool is_number(data_type t, std::byte const* from, std::int64_t number) {
    double const wanted = t.code == type_code::bool_ ? 1 : static_cast<double>(number);
    double const value = read_number(t, from);
    int mantissa = 0;
    with_element(t, [&](auto element) { mantissa = mantissa_bits<decltype(element)>; });
    double const step = std::ldexp(1.0, std::ilogb(wanted) - mantissa);
    double const below = std::floor(wanted / step) * step;
    return value == wanted || (below != wanted && (value == below || value == below + step));
}
inline void write_number(data_type t, std::byte* to, std::int64_t number) {
    with_element(t, [&](auto element) {
        element = static_cast<decltype(element)>(t.code == type_code::bool_ ? std::int64_t{1} : number);
        std::memcpy(to, &element, sizeof element);
    });
}

/// Calls f(ordinal, byte offset) for every element in row-major order, until `f` returns false.
template <class F>
void for_each_element(tensor_view const& v, F f) {
    std::int64_t const bytes = bits_per_element(v.dtype(), v.is_padded()) / 8;
    for (std::int64_t ordinal = 0, count = v.size(); ordinal < count; ++ordinal) {
        std::int64_t offset = 0, rest = ordinal;
        for (int i = v.rank(); i-- > 0; rest /= v.extent(i)) offset += rest % v.extent(i) * v.stride(i);
        if (!f(ordinal, offset * bytes)) return;
    }
}

/// Finds the first element whose value is not the expected one.
///
/// \param v         view
/// \param elements  address of the first element; null for v.data()
/// \param period    number of elements after which the expected values start from 1 again (broadcast dimensions)
/// \return          row-major index of the element; -1 when all have the expected value
[[nodiscard]] inline std::int64_t first_mismatch(tensor_view const& v, void const* elements = nullptr,
                                                 std::int64_t period = INT64_MAX) {
    auto const* const first = static_cast<std::byte const*>(elements != nullptr ? elements : v.data());
    std::int64_t wrong = -1;
    for_each_element(v, [&](std::int64_t ordinal, std::int64_t offset) {
        if (is_number(v.dtype(), first + offset, ordinal % period + 1)) return true;
        wrong = ordinal;
        return false;
    });
    return wrong;
}

}  // namespace FERRY_NAMESPACE::conformance::detail
