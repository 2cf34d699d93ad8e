// ferry: a descriptor as JSON, for readers without ferry; docs/schema/descriptor-2.json is the schema.
#pragma once

#include <ferry/wire/descriptor.hpp>

#include <ferry/base/result.hpp>

#include <source_location>

namespace FERRY_NAMESPACE::wire {

/// Encodes a descriptor as JSON, with the minor version of this ferry, in the form of RFC 8785: one line, sorted keys.
///
/// \param d      descriptor
/// \return       text; `try_to_json` returns the text or the error
/// \throws error           errc::bad_descriptor, as `check`
/// \throws std::bad_alloc  an allocation failed
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] FERRY_INLINE std::string to_json(descriptor const& d,
                                               std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<std::string> try_to_json(
    descriptor const& d, std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE::wire

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/wire/detail/json.ipp>
#endif
