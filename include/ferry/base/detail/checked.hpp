// ferry: integer arithmetic with overflow detection (R32).
#pragma once

#include <ferry/config.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace FERRY_NAMESPACE::detail {

/// Computes `out = a * b`.
/// \return     false when the result does not fit in `T`; `out` is then the wrapped result
template <std::integral T>
[[nodiscard]] constexpr bool checked_multiply(T a, T b, T& out) noexcept {
#if FERRY_HAS_GNU
    return !__builtin_mul_overflow(a, b, &out);
#else
    using wide = std::common_type_t<unsigned, std::make_unsigned_t<T>>;
    out = static_cast<T>(static_cast<wide>(a) * static_cast<wide>(b));
    if (a == 0) return true;
    if constexpr (std::is_signed_v<T>)
        if (a == -1) return b == 0 || out != b;
    return out / a == b;
#endif
}

/// Computes `out = a + b`.
/// \return     false when the result does not fit in `T`; `out` is then the wrapped result
template <std::integral T>
[[nodiscard]] constexpr bool checked_add(T a, T b, T& out) noexcept {
#if FERRY_HAS_GNU
    return !__builtin_add_overflow(a, b, &out);
#else
    out = static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    return b < 0 ? out < a : out >= a;
#endif
}

}  // namespace FERRY_NAMESPACE::detail
