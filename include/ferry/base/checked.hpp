// ferry: integer arithmetic with overflow detection (R32).
#pragma once

#include <ferry/config.hpp>

#include <concepts>
#include <cstdint>

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Computes `out = a * b`.
///
/// \param a    factor
/// \param b    factor
/// \param out  product
/// \return     false when the result does not fit in `T`; `out` is then the wrapped result
template <std::integral T>
[[nodiscard]] constexpr bool checked_multiply(T a, T b, T& out) noexcept {
    return !__builtin_mul_overflow(a, b, &out);
}

/// Computes `out = a + b`.
///
/// \param a    summand
/// \param b    summand
/// \param out  sum
/// \return     false when the result does not fit in `T`; `out` is then the wrapped result
template <std::integral T>
[[nodiscard]] constexpr bool checked_add(T a, T b, T& out) noexcept {
    return !__builtin_add_overflow(a, b, &out);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
