// ferry: the check of a descriptor. Both decoders end with it, because a checksum does not protect against forged
// values.
#pragma once

#include <ferry/wire/descriptor.hpp>

#include <ferry/base/result.hpp>

#include <source_location>

namespace FERRY_NAMESPACE::wire {

/// The maximum depth of a column: nodes from the root to a leaf.
inline constexpr int max_depth = 64;
/// The number of bytes of a CUDA handle, of memory or of an event.
inline constexpr std::size_t handle_size = 64;

namespace detail {

class caller;
struct place;

FERRY_INLINE bool check_node(node const& n, std::vector<memory> const& memories, int depth, place const& here,
                             caller const& by);
FERRY_INLINE bool check(descriptor const& d, caller const& by);

}  // namespace detail

/// Checks that a descriptor is consistent, with arithmetic that cannot overflow: it has this major version; each range
/// lies in its allocation; each memory has the device, handle and name that its kind requires; each element of a tensor
/// and each buffer of a column lies in the range of its memory.
///
/// Does not check the actual size of an allocation, or whether the buffers of a column suit its format. Allocates
/// nothing. The time is linear in the size of the descriptor.
///
/// \param d      descriptor
/// \return       `try_check`: success, or the error
/// \throws error  errc::bad_descriptor; the message names the field by its JSON pointer, its value and the limit
#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE void check(descriptor const& d, std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<> try_check(descriptor const& d,
                                              std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE::wire

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/wire/detail/check.ipp>
#endif
