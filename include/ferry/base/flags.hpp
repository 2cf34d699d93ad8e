// ferry: the flag bits of a managed tensor.
#pragma once

#include <ferry/abi/dlpack.hpp>

#include <cstdint>

namespace ferry::inline v0 {

/// Flag bits of a tensor, set by its producer. Exports write 0 to unknown bits; imports ignore them (R14).
enum class flags : std::uint64_t {
    none = 0,
    read_only = abi::flag::read_only,            ///< the data must not be written (R11)
    is_copied = abi::flag::is_copied,            ///< copied for this exchange; the consumer is the sole owner (R12)
    subbyte_padded = abi::flag::subbyte_padded,  ///< sub-byte elements are padded to whole bytes, not packed (R13)
};

/// \param a  bits
/// \param b  bits
/// \return   union of the bits
[[nodiscard]] constexpr flags operator|(flags a, flags b) noexcept {
    return flags{static_cast<std::uint64_t>(a) | static_cast<std::uint64_t>(b)};
}
/// \param a  bits
/// \param b  bits
/// \return   intersection of the bits
[[nodiscard]] constexpr flags operator&(flags a, flags b) noexcept {
    return flags{static_cast<std::uint64_t>(a) & static_cast<std::uint64_t>(b)};
}
/// \param a  bits
/// \return   complement of the bits
[[nodiscard]] constexpr flags operator~(flags a) noexcept { return flags{~static_cast<std::uint64_t>(a)}; }
/// Sets bits.
///
/// \param a  bits to change
/// \param b  bits to set
/// \return   `a`
constexpr flags& operator|=(flags& a, flags b) noexcept { return a = a | b; }
/// Clears bits.
///
/// \param a  bits to change
/// \param b  bits to keep
/// \return   `a`
constexpr flags& operator&=(flags& a, flags b) noexcept { return a = a & b; }

/// \param set     bits
/// \param wanted  bits to test for
/// \return        whether `set` contains all bits of `wanted`
[[nodiscard]] constexpr bool has(flags set, flags wanted) noexcept { return (set & wanted) == wanted; }

/// \param set  bits
/// \return     the bits of `set` that ferry defines; imports ignore the others (R14)
[[nodiscard]] constexpr flags known(flags set) noexcept {
    return set & (flags::read_only | flags::is_copied | flags::subbyte_padded);
}

}  // namespace ferry::inline v0
