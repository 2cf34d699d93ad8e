// ferry: the flag bits of a managed tensor.
#pragma once

#include <ferry/abi/dlpack.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE {

/// Flag bits of a tensor, set by its producer. Exports write 0 to unknown bits; imports ignore them (R14).
enum class flags : std::uint64_t {
    none = 0,
    read_only = abi::flag::read_only,            ///< the data must not be written (R11)
    is_copied = abi::flag::is_copied,            ///< copied for this exchange; the consumer is the sole owner (R12)
    subbyte_padded = abi::flag::subbyte_padded,  ///< sub-byte elements are padded to whole bytes, not packed (R13)
};

/// Returns the union of two sets of bits.
///
/// \param a  bits
/// \param b  bits
/// \return   bits that are set in `a` or `b`
[[nodiscard]] constexpr flags operator|(flags a, flags b) noexcept {
    return flags{static_cast<std::uint64_t>(a) | static_cast<std::uint64_t>(b)};
}
/// Returns the intersection of two sets of bits.
///
/// \param a  bits
/// \param b  bits
/// \return   bits that are set in `a` and `b`
[[nodiscard]] constexpr flags operator&(flags a, flags b) noexcept {
    return flags{static_cast<std::uint64_t>(a) & static_cast<std::uint64_t>(b)};
}
/// Returns the complement of a set of bits, including unknown bits.
///
/// \param a  bits
/// \return   bits that are not set in `a`
[[nodiscard]] constexpr flags operator~(flags a) noexcept { return flags{~static_cast<std::uint64_t>(a)}; }
/// Adds the bits of another set.
///
/// \param a  bits to change
/// \param b  bits to add
/// \return   `a`
constexpr flags& operator|=(flags& a, flags b) noexcept { return a = a | b; }
/// Removes the bits that are not in another set.
///
/// \param a  bits to change
/// \param b  bits to keep
/// \return   `a`
constexpr flags& operator&=(flags& a, flags b) noexcept { return a = a & b; }

/// Returns whether a set contains all bits of another set.
///
/// \param set     bits
/// \param wanted  bits to test for
/// \return        true when `set` contains all bits of `wanted`
[[nodiscard]] constexpr bool has(flags set, flags wanted) noexcept { return (set & wanted) == wanted; }

/// Returns the flags of a tensor that the legacy struct, which has no flags, cannot represent (R13, R15).
///
/// \param set  flags of the tensor
/// \return     those of read_only and subbyte_padded that are set
[[nodiscard]] constexpr flags lost_in_legacy(flags set) noexcept {
    return set & (flags::read_only | flags::subbyte_padded);
}

/// Removes unknown bits, which imports ignore (R14).
///
/// \param set  bits
/// \return     the bits of `set` that ferry defines
[[nodiscard]] constexpr flags known(flags set) noexcept {
    return set & (flags::read_only | flags::is_copied | flags::subbyte_padded);
}

}  // namespace FERRY_NAMESPACE
