// minitensor: elements of any type as numbers.
#pragma once

#include <minitensor/dtype.hpp>

#include <array>
#include <complex>
#include <cstdint>
#include <variant>

namespace mt {

/// The value of one element.
using number = std::variant<bool, std::int64_t, std::uint64_t, double, std::complex<double>>;

/// The bytes of one element; a packed type uses the low bits of the first.
using element = std::array<unsigned char, 16>;

/// Converts an element to a number, exactly. The small float formats follow the definitions of OCP and
/// ml_dtypes.
[[nodiscard]] number decode(dtype, element const&);

/// Converts a number to an element of the type.
///
/// Float types: rounds to nearest, ties to even. Values that are too large become infinity, NaN in formats
/// without infinity, or the largest number in formats without both (float6, float4). NaN becomes zero in formats
/// without NaN. In float8_e8m0fnu, values that are not positive become NaN. Integer types: fractions are truncated.
/// bool: whether the value is not zero.
///
/// \throws std::overflow_error    the value does not fit in an integer type
/// \throws std::invalid_argument  a complex number for a real type; NaN or infinity for an integer type
[[nodiscard]] element encode(dtype, number);

/// Reads or writes the element that starts `bit` bits after `base`; `bit` may be negative.
[[nodiscard]] element load(dtype, void const* base, std::int64_t bit) noexcept;
void store(dtype, void* base, std::int64_t bit, element const&) noexcept;

}  // namespace mt
