// ferry: handles of columns whose allocations may leave the device.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/column/column.hpp>
#include <ferry/config.hpp>
#include <ferry/lease/detail/spill_core.hpp>

#include <cstddef>
#include <memory>  // handles and leases share the state of a manager
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

struct adopted_column;
/// Implements spill_manager::adopt for columns.
[[nodiscard]] FERRY_INLINE std::shared_ptr<adopted_column const> adopt_column(std::shared_ptr<spill_core> core,
                                                                              column& c, stream_token on,
                                                                              std::size_t reserved, record const& call);
/// Implements spillable_column::read; `c` may be null.
[[nodiscard]] FERRY_INLINE column lend_column(adopted_column const* c, stream_token on, record const& call);

}  // namespace detail

/// A handle of a column of a spill_manager. Copies are handles of the same column, whose memory is freed with the last
/// handle and lease. Different handles may be used by different threads concurrently.
///
/// Each allocation is spilled separately. Columns that share an allocation, such as slices, children and columns with
/// one dictionary, share it in the manager too, so it is spilled once, while no lease uses it. The memory that a column
/// has when it is adopted is freed when the last of its allocations is spilled or freed.
class spillable_column {
   public:
    /// Constructs an empty handle, as after a move.
    spillable_column() = default;

    /// Returns whether this is the handle of a column.
    [[nodiscard]] explicit operator bool() const noexcept { return column_ != nullptr; }

    /// Begins a lease for reading, and copies spilled allocations back to the device.
    ///
    /// The lease ends when the last copy, slice or child of the result, or what it was exported as, is destroyed; until
    /// then, the memory does not move. Streams and waits are those of `spillable::read`.
    ///
    /// \param on  stream on which the caller uses the column; see `spillable::read`
    /// \return    column, with the items, type, names and metadata of the column that was adopted
    /// \throws error           errors of `spillable::read`; no lease has then begun
    /// \throws std::bad_alloc  when an allocation fails
    [[nodiscard]] column read(stream_token on, std::source_location where = std::source_location::current()) const {
        return detail::lend_column(column_.get(), on, {"ferry::spillable_column::read", where});
    }

   private:
    friend class spill_manager;
    explicit spillable_column(std::shared_ptr<detail::adopted_column const> c) noexcept : column_{std::move(c)} {}

    std::shared_ptr<detail::adopted_column const> column_;
};

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/lease/detail/spillable_column.ipp>
#endif
