// ferry: imports and exports of columns by Arrow's C device data interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/events.hpp>
#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/column/column.hpp>
#include <ferry/config.hpp>
#include <ferry/space/back_end.hpp>

#include <source_location>
#include <type_traits>

namespace FERRY_NAMESPACE {
namespace detail {

/// Implements the imports, without a release of the schema; `b` is null if the array must be in host memory.
[[nodiscard]] FERRY_INLINE column take_device_array(ArrowDeviceArray* array, ArrowSchema const* schema,
                                                    arrow_events_ref const* b, stream_token on,
                                                    std::source_location where);

}  // namespace detail

/// Imports an array in host memory, as from_arrow of an ArrowArray does. `sync_event` is ignored.
///
/// \param array   array; moved from on success
/// \param schema  its type; released on success
/// \throws error  errc::no_backend: not in host memory;  as from_arrow of an ArrowArray
[[nodiscard]] FERRY_INLINE column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema,
                                             std::source_location where = std::source_location::current());

/// Imports an array in any memory that the back end reaches. The structure is validated; device memory is not read. The
/// ownership is that of from_arrow of an ArrowArray.
///
/// If the array has an event, work that is queued on `on` later runs after it; the host waits for the event if `on`
/// names no stream. With no_sync() the caller must order the work. Without an event the data is ready. The producer
/// keeps the ownership of the event. `reserved` is ignored.
///
/// Source: "Structure definitions" and "Synchronization event types" of the Arrow C device data interface.
///
/// \param array   array; moved from on success, unchanged on failure
/// \param schema  its type; released on success, unchanged on failure
/// \param b       back end that waits for the event
/// \param on      stream that reads the column
/// \throws error  errc::device: an unknown device type or id;  no_backend: the back end does not reach the device;
///                stream: a null stream, or one of another device;  an error of the back end;  as from_arrow of an
///                ArrowArray
[[nodiscard]] FERRY_INLINE column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema, arrow_events_ref b,
                                             stream_token on = {},
                                             std::source_location where = std::source_location::current());
template <class BackEnd>
    requires(back_end<std::remove_reference_t<BackEnd>> && !detail::reaches_arrow_events<BackEnd>)
// clang-format off
column from_arrow(ArrowDeviceArray*, ArrowSchema*, BackEnd&&, stream_token = {}) FERRY_DELETED("this back end has no events of Arrow's: pass ferry::cuda::arrow of <ferry/cuda/arrow.hpp>, or give it wait_for_event and record_event");
// clang-format on

/// Exports a column in any memory without a copy. If `ready_on` names a stream, the array has an event after the work
/// that is queued there, which is valid as long as the array. Otherwise the data is ready, and there is no event. Does
/// not block. `reserved` is zero.
///
/// As in an ArrowArray, the children of a struct are sliced, so that its offset is 0. The validity in device memory is
/// not read, so if it may have nulls and the slice begins within a byte, the array begins with the first item of that
/// byte and has an offset below 8.
///
/// \param c         column; the array shares its memory
/// \param out       array to write; unchanged on failure
/// \param b         back end that records the event
/// \param ready_on  stream whose queued work writes the column, if any
/// \throws error           errc::argument: `out` is null;  device: children on different devices;  no_backend: the back
///                         end does not reach the device;  stream: a null stream, or one of another device;  an error
///                         of the back end
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow(column const& c, ArrowDeviceArray* out, arrow_events_ref b, stream_token ready_on = {},
                           std::source_location where = std::source_location::current());
template <class BackEnd>
    requires(back_end<std::remove_reference_t<BackEnd>> && !detail::reaches_arrow_events<BackEnd>)
// clang-format off
void to_arrow(column const&, ArrowDeviceArray*, BackEnd&&, stream_token = {}) FERRY_DELETED("this back end has no events of Arrow's: pass ferry::cuda::arrow of <ferry/cuda/arrow.hpp>, or give it wait_for_event and record_event");
// clang-format on

/// Exports a column whose data is ready, without an event.
///
/// \param c      column; the array shares its memory
/// \param out    array to write; unchanged on failure
/// \throws error           errc::argument: `out` is null;  device: children on different devices
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow(column const& c, ArrowDeviceArray* out,
                           std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/arrow/detail/device.ipp>
#endif
