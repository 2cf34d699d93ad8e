// ferry: a descriptor as bytes; docs/wire.md documents the format. Unknown records, and additional bytes at the end of
// a known one, are skipped, because a later minor version may add them.
#pragma once

#include <ferry/wire/descriptor.hpp>

#include <ferry/base/result.hpp>

#include <source_location>
#include <span>

namespace FERRY_NAMESPACE::wire {

/// Encodes a descriptor as bytes, with the minor version of this ferry.
///
/// \param d      descriptor
/// \return       bytes; `try_to_bytes` returns the bytes or the error
/// \throws error           errc::bad_descriptor, as `check`
/// \throws std::bad_alloc  an allocation failed
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] FERRY_INLINE std::vector<std::byte> to_bytes(
    descriptor const& d, std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<std::vector<std::byte>> try_to_bytes(
    descriptor const& d, std::source_location where = std::source_location::current());

/// Decodes a descriptor of any minor version of this major version, and checks it with `check`. Time and memory are
/// linear in the number of bytes.
///
/// \param bytes  one descriptor, encoded by `to_bytes`
/// \return       descriptor; `try_from_bytes` returns the descriptor or the error
/// \throws error           errc::bad_descriptor: another major version, truncated or damaged bytes, or an error of
///                         `check`; the message names the position or the field
/// \throws std::bad_alloc  an allocation failed
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] FERRY_INLINE descriptor from_bytes(std::span<std::byte const> bytes,
                                                 std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<descriptor> try_from_bytes(
    std::span<std::byte const> bytes, std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE::wire

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/wire/detail/binary.ipp>
#endif
