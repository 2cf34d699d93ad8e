// minitensor: single elements as numbers, whatever their type.
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

/// Reads an element exactly: every value of every type fits a number. The small float formats
/// follow the OCP and ml_dtypes definitions.
[[nodiscard]] number decode(dtype, element const&);

/// Writes a number as an element of the type.
///
/// To a float type: to the nearest, ties to even. What is too large becomes infinity where the
/// format has one, else NaN, else (float6, float4) the largest number; NaN becomes a zero in the
/// formats without it; float8_e8m0fnu turns all that is not positive into NaN. To an integer type:
/// fractions are cut off. To bool: whether it is not zero.
///
/// \throws std::overflow_error     an integer type cannot hold it
/// \throws std::invalid_argument   a complex number for a real type; NaN or infinity for an integer
/// type
[[nodiscard]] element encode(dtype, number);

/// Reads or writes the element that starts `bit` bits after `base`; `bit` may be negative.
[[nodiscard]] element load(dtype, void const* base, std::int64_t bit) noexcept;
void store(dtype, void* base, std::int64_t bit, element const&) noexcept;

}  // namespace mt
