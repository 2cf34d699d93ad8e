// ferry: the flag bits of a managed tensor.
#pragma once

#include <ferry/abi/dlpack.hpp>

#include <cstdint>

namespace ferry::inline v0 {

/// Facts that a producer states about its tensor. Unknown bits are kept out of what ferry writes and ignored where
/// ferry reads (R14).
enum class flags : std::uint64_t {
    none = 0,
    read_only = abi::flag::read_only,            ///< the data must not be written (R11)
    is_copied = abi::flag::is_copied,            ///< made for this exchange; the receiver is the sole owner (R12)
    subbyte_padded = abi::flag::subbyte_padded,  ///< sub-byte elements take a byte each instead of being packed (R13)
};

/// Bits that either has.
[[nodiscard]] constexpr flags operator|(flags a, flags b) noexcept {
    return flags{static_cast<std::uint64_t>(a) | static_cast<std::uint64_t>(b)};
}
/// Bits that both have.
[[nodiscard]] constexpr flags operator&(flags a, flags b) noexcept {
    return flags{static_cast<std::uint64_t>(a) & static_cast<std::uint64_t>(b)};
}
/// Bits that it has not.
[[nodiscard]] constexpr flags operator~(flags a) noexcept { return flags{~static_cast<std::uint64_t>(a)}; }
/// Sets bits.
constexpr flags& operator|=(flags& a, flags b) noexcept { return a = a | b; }
/// Keeps no other bits.
constexpr flags& operator&=(flags& a, flags b) noexcept { return a = a & b; }

/// Whether `set` contains all bits of `wanted`.
[[nodiscard]] constexpr bool has(flags set, flags wanted) noexcept { return (set & wanted) == wanted; }

/// The bits that this version of ferry understands; the rest is dropped on read (R14).
[[nodiscard]] constexpr flags known(flags set) noexcept {
    return set & (flags::read_only | flags::is_copied | flags::subbyte_padded);
}

}  // namespace ferry::inline v0
