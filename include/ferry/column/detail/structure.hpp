// ferry: checks of the structure of a column, which do not read its buffers.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/view.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE::detail {

[[nodiscard]] FERRY_INLINE bool check_structure(column_view c, column_path const& path, reporter r);

/// Merges the flags of two chunks: nullable if one of them is, ordered and sorted if both are.
[[nodiscard]] constexpr std::int64_t merged_flags(std::int64_t a, std::int64_t b) noexcept {
    return (a & b) | ((a | b) & abi::arrow_flag::nullable);
}

/// Fails with errc::argument unless two columns may be chunks of one. Compares types (`d:9,2` and `d:9,2,128` are
/// equal), the number of children, the names of children of structs and unions, and the types of dictionaries. Flags,
/// metadata and the values of dictionaries may differ. `chunk` is the number of `c` in the message.
[[nodiscard]] FERRY_INLINE bool check_same_type(column_view wanted, column_view c, column_path const& path,
                                                std::uint64_t chunk, reporter r);

}  // namespace FERRY_NAMESPACE::detail

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/structure.ipp>
#endif
