// ferry: columns in and out of Arrow's C device interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/events.hpp>
#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/column/column.hpp>
#include <ferry/config.hpp>
#include <ferry/space/back_end.hpp>

#include <cstdint>
#include <limits>
#include <memory>  // an export keeps its event with the column's owner
#include <source_location>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// Where an array says that it is. Ids of memory that has none are -1 by convention, and read as 0.
/// \throws error  errc::device
[[nodiscard]] inline device device_of(ArrowDeviceArray const& a, char const* api, std::source_location where) {
    auto const type = static_cast<device_type>(a.device_type);
    if (!is_known(type))
        fail(errc::device, api,
             message{"the array's device type is "} << std::int64_t{a.device_type} << ", which no device has", where);
    if (ignores_id(type)) return {type, 0};
    if (a.device_id < 0 || a.device_id > std::numeric_limits<std::int32_t>::max())
        fail(errc::device, api,
             message{"the array's device id is "} << a.device_id << ", which no " << name(type) << " device has",
             where);
    return {type, static_cast<std::int32_t>(a.device_id)};
}
[[nodiscard]] inline ArrowDeviceArray make_device_array(column_view c, std::shared_ptr<void const> owner, void* event) {
    ArrowDeviceArray made{};
    made.array = make_array(c, std::move(owner));
    made.device_id = c.device().type == device_type::cpu ? -1 : c.device().id;
    made.device_type = static_cast<std::int32_t>(c.device().type);
    made.sync_event = event;
    return made;
}

inline void require_stream_of(stream_token on, device d, char const* api, std::source_location where) {
    if (!fits(on, d.type))
        fail(errc::stream, api, message{"the stream orders no work on "} << name(d.type) << " memory", where);
}

}  // namespace detail

/// Takes over an array of host memory, as from_arrow does for an ArrowArray. `sync_event` means nothing there.
/// \throws error  errc::no_backend when the array is elsewhere;  what from_arrow throws
[[nodiscard]] inline column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema,
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_arrow";
    if (array == nullptr) detail::fail(errc::argument, api, message{"the ArrowDeviceArray is null"}, where);
    auto const place = detail::device_of(*array, api, where);
    if (place.type != device_type::cpu)
        detail::fail(errc::no_backend, api,
                     message{"the array is on "}
                         << name(place.type) << ":" << place.id
                         << (uses_cuda_streams(place.type)
                                 ? ": include <ferry/cuda/arrow.hpp> and pass ferry::cuda::arrow"
                                 : ": pass a back end that has its events"),
                     where);
    return from_arrow(&array->array, schema, where);
}

/// Takes over an array of any memory that the back end reaches, once its structure has been checked; ownership is as
/// with an ArrowArray. No byte of device memory is read.
///
/// When the array has an event, work queued on `on` later runs after it, or, when `on` names no stream, the host waits
/// for it; with no_sync() the caller sees to the order. Without an event the data is ready. The event stays the
/// producer's. `reserved` is ignored.
///
/// Source: "Structure definitions" and "Synchronization event types" of the Arrow C device data interface.
/// \throws error  errc::device: unknown, or no such id;  no_backend;  stream: one that orders no work there;  what the
///                back end throws when it waits;  what from_arrow throws. Then both structs are as they were.
template <arrow_event_back_end BackEnd>
[[nodiscard]] column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema, BackEnd& b, stream_token on = {},
                                std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_arrow";
    if (array == nullptr) detail::fail(errc::argument, api, message{"the ArrowDeviceArray is null"}, where);
    auto const place = detail::device_of(*array, api, where);
    detail::require_reach(b, place, api, where);
    detail::require_stream_of(on, place, api, where);
    auto tree = detail::read_arrow(&array->array, schema, place, api, where);
    if (array->sync_event != nullptr && place.type != device_type::cpu && !on.is_no_sync())
        b.wait_for_event(array->sync_event, place, on.on_device(place));  // mutant: arrow_import_wait
    auto made = detail::take_arrow(std::move(tree), &array->array);
    detail::release_schema(schema);
    return made;
}
template <back_end BackEnd>
    requires(!arrow_event_back_end<BackEnd>)
// clang-format off
column from_arrow(ArrowDeviceArray*, ArrowSchema*, BackEnd&, stream_token = {}) FERRY_DELETED("this back end has no events of Arrow's: pass ferry::cuda::arrow of <ferry/cuda/arrow.hpp>, or give it wait_for_event and record_event");
// clang-format on

/// Shares a column of any memory, without a copy. Written only on success. When `ready_on` names a stream, what is
/// queued there now is still going to write the data: the array has an event that comes after it, which lives as long
/// as the array. Otherwise the data is ready, and there is no event. Does not block. `reserved` is zero.
///
/// \throws error  errc::argument: `out` is null;  no_backend, stream;  what the back end throws when it records;
///                std::bad_alloc
template <arrow_event_back_end BackEnd>
void to_arrow(column const& c, ArrowDeviceArray* out, BackEnd& b, stream_token ready_on = {},
              std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_arrow";
    if (out == nullptr) detail::fail(errc::argument, api, message{"the ArrowDeviceArray to write to is null"}, where);
    auto const place = c.device();
    detail::require_stream_of(ready_on, place, api, where);
    if (!ready_on.names_stream()) {
        *out = detail::make_device_array(c.view(), c.owner(), nullptr);
        return;
    }
    detail::require_reach(b, place, api, where);
    using event = decltype(b.record_event(place, ready_on));
    struct kept {
        std::shared_ptr<void const> owner;
        event ready;
    };
    // mutant: arrow_export_event
    auto both = std::make_shared<kept>(kept{c.owner(), b.record_event(place, ready_on.on_device(place))});
    auto* const ready = static_cast<void*>(both->ready.get());
    *out = detail::make_device_array(c.view(), std::move(both), ready);  // mutant: arrow_event_owner
}
template <back_end BackEnd>
    requires(!arrow_event_back_end<BackEnd>)
// clang-format off
void to_arrow(column const&, ArrowDeviceArray*, BackEnd&, stream_token = {}) FERRY_DELETED("this back end has no events of Arrow's: pass ferry::cuda::arrow of <ferry/cuda/arrow.hpp>, or give it wait_for_event and record_event");
// clang-format on

/// Shares a column whose data is ready, without an event.
/// \throws error  errc::argument: `out` is null;  std::bad_alloc
inline void to_arrow(column const& c, ArrowDeviceArray* out,
                     std::source_location where = std::source_location::current()) {
    if (out == nullptr)
        detail::fail(errc::argument, "ferry::to_arrow", message{"the ArrowDeviceArray to write to is null"}, where);
    *out = detail::make_device_array(c.view(), c.owner(), nullptr);
}

}  // namespace ferry::inline v0
