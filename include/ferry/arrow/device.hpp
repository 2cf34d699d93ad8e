// ferry: imports and exports of columns by Arrow's C device data interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/events.hpp>
#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/column/column.hpp>
#include <ferry/config.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>

#include <cstdint>
#include <limits>
#include <memory>  // shared ownership of an event and the buffers
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// Returns the device of an array. The id of memory without ids is -1 by convention, and 0 here.
/// \throws error  errc::device: not a device
[[nodiscard]] inline device device_of(ArrowDeviceArray const& a, char const* api, std::source_location where) {
    auto const type = static_cast<device_type>(a.device_type);
    if (!is_known(type))
        fail(errc::device, api,
             message{"unknown device type "}
                 << std::int64_t{a.device_type}
                 << ", expected a type of Arrow's C device interface: correct it in the producer",
             where);
    if (ignores_id(type)) return {type, 0};
    if (a.device_id < 0 || a.device_id > (std::numeric_limits<std::int32_t>::max)())
        fail(errc::device, api,
             message{"invalid device id "} << a.device_id << " for " << name(type)
                                           << ", expected the index of a device: correct it in the producer",
             where);
    return {type, static_cast<std::int32_t>(a.device_id)};
}
[[nodiscard]] inline ArrowDeviceArray make_device_array(column_view c, std::shared_ptr<void const> owner, void* event,
                                                        reporter r) {
    static_cast<void>(check_one_device(
        c, "an ArrowDeviceArray has one device: export the children, or move the column with to()", r));
    ArrowDeviceArray made{};
    made.array = make_array(c, c.device().type == device_type::cpu, std::move(owner));
    made.device_id = c.device().type == device_type::cpu ? -1 : c.device().id;
    made.device_type = static_cast<std::int32_t>(c.device().type);
    made.sync_event = event;
    return made;
}

}  // namespace detail

/// Imports an array in host memory, as from_arrow of an ArrowArray does. `sync_event` is ignored.
///
/// \param array   array; moved from on success
/// \param schema  its type; released on success
/// \throws error  errc::no_backend: not in host memory;  as from_arrow of an ArrowArray
[[nodiscard]] inline column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema,
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_arrow";
    if (array == nullptr)
        detail::fail(errc::argument, api, message{"the ArrowDeviceArray is null: pass a struct"}, where);
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
[[nodiscard]] inline column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema, arrow_events_ref b,
                                       stream_token on = {},
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_arrow";
    if (array == nullptr)
        detail::fail(errc::argument, api, message{"the ArrowDeviceArray is null: pass a struct"}, where);
    auto const place = detail::device_of(*array, api, where);
    static_cast<void>(detail::check_support(b, place, {api, where}));
    static_cast<void>(detail::check_stream(on, place, {api, where}));
    auto tree = detail::read_arrow(&array->array, schema, place, api, where);
    if (array->sync_event != nullptr && place.type != device_type::cpu && !on.is_no_sync())
        b.wait_for_event(array->sync_event, place, on.on_device(place));
    auto made = detail::take_arrow(std::move(tree), &array->array);
    detail::release_schema(schema);
    return made;
}
template <class BackEnd>
    requires(back_end<std::remove_reference_t<BackEnd>> && !detail::reaches_arrow_events<BackEnd>)
// clang-format off
column from_arrow(ArrowDeviceArray*, ArrowSchema*, BackEnd&&, stream_token = {}) FERRY_DELETED("this back end has no events of Arrow's: pass ferry::cuda::arrow of <ferry/cuda/arrow.hpp>, or give it wait_for_event and record_event");
// clang-format on

/// Exports a column in any memory without a copy. If `ready_on` names a stream, the array has an event after the work
/// that is queued there, which is valid as long as the array. Otherwise the data is ready, and there is no event. Does
/// not block. `reserved` is zero.
///
/// Slices are moved into the children as in an ArrowArray. The validity in memory of a device is not read: if it may
/// have nulls and the slice begins within a byte, the items of that byte stay, and the array has an offset below 8.
///
/// \param c         column; the array shares its memory
/// \param out       array to write; unchanged on failure
/// \param b         back end that records the event
/// \param ready_on  stream whose queued work writes the column, if any
/// \throws error           errc::argument: `out` is null;  device: children on different devices;  no_backend: the back
///                         end does not reach the device;  stream: a null stream, or one of another device;  an error
///                         of the back end
/// \throws std::bad_alloc  when an allocation fails
inline void to_arrow(column const& c, ArrowDeviceArray* out, arrow_events_ref b, stream_token ready_on = {},
                     std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_arrow";
    if (out == nullptr)
        detail::fail(errc::argument, api, message{"the ArrowDeviceArray to write to is null: pass a struct"}, where);
    auto const place = c.device();
    static_cast<void>(detail::check_stream(ready_on, place, {api, where}));
    if (!ready_on.names_stream() || place.type == device_type::cpu) {
        *out = detail::make_device_array(c.view(), c.owner(), nullptr, {api, where});
        return;
    }
    static_cast<void>(detail::check_support(b, place, {api, where}));
    struct kept {
        std::shared_ptr<void const> owner;
        detail::any_owner ready;
    };
    auto both = std::make_shared<kept>(kept{c.owner(), b.record_event(place, ready_on.on_device(place))});
    auto* const ready = both->ready.data();
    *out = detail::make_device_array(c.view(), std::move(both), ready, {api, where});
}
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
inline void to_arrow(column const& c, ArrowDeviceArray* out,
                     std::source_location where = std::source_location::current()) {
    if (out == nullptr)
        detail::fail(errc::argument, "ferry::to_arrow",
                     message{"the ArrowDeviceArray to write to is null: pass a struct"}, where);
    *out = detail::make_device_array(c.view(), c.owner(), nullptr, {"ferry::to_arrow", where});
}

}  // namespace FERRY_NAMESPACE
