// ferry: copies of columns between devices. Requires exceptions.
#pragma once

#include <ferry/config.hpp>

#if FERRY_HAS_EXCEPTIONS
#include <ferry/base/stream_token.hpp>
#include <ferry/column/column.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/buffer.hpp>

#include <source_location>

namespace FERRY_NAMESPACE {
namespace detail {

/// Copies a column into memory that the back end `memory` allocates. If `is_exact`, all buffers of the result lie in
/// the space of `memory`; otherwise, a column on the target device is returned unchanged. If the children of a struct
/// are on different devices, they are copied one by one, without a stream, because `on` may belong to one device and
/// copies of the others cannot run on it.
[[nodiscard]] FERRY_INLINE column move_column(column const& c, device target, back_end_ref b, back_end_ref memory,
                                              bool is_exact, stream_token on, std::source_location where);

/// Implements column::to.
template <class Where>
struct column_move {
    [[nodiscard]] static column run(column const& c, Where const& place, back_end_ref b, stream_token on,
                                    std::source_location where) {
        if constexpr (memory_space<Where>)
            return move_column(c, place.device(), b, destination{place, b}, true, on, where);
        else return move_column(c, place, b, b, false, on, where);
    }
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/to.ipp>
#endif
#endif
