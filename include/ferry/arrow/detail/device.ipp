// ferry: the engine of arrow/device.hpp.
#pragma once

#include <ferry/arrow/device.hpp>

#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/error.hpp>
#include <ferry/space/detail/operations.hpp>

#include <cstdint>
#include <limits>
#include <memory>  // shared ownership of an event and the buffers
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// Returns the device of an array. Devices without ids have id -1 by convention, which becomes 0.
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

FERRY_INLINE column take_device_array(ArrowDeviceArray* array, ArrowSchema const* schema, arrow_events_ref const* b,
                                      stream_token on, std::source_location where) {
    constexpr auto api = "ferry::from_arrow";
    if (array == nullptr) fail(errc::argument, api, message{"the ArrowDeviceArray is null: pass a struct"}, where);
    auto const place = device_of(*array, api, where);
    if (b != nullptr) {
        static_cast<void>(check_support(*b, place, {api, where}));
        static_cast<void>(check_stream(on, place, {api, where}));
    } else if (place.type != device_type::cpu) {
        fail(errc::no_backend, api,
             message{"the array is on "} << name(place.type) << ":" << place.id
                                         << (uses_cuda_streams(place.type)
                                                 ? ": include <ferry/cuda/arrow.hpp> and pass ferry::cuda::arrow"
                                                 : ": pass a back end that has its events"),
             where);
    }
    auto tree = read_arrow(&array->array, schema, place, api, where);
    if (array->sync_event != nullptr && place.type != device_type::cpu && !on.is_no_sync())
        b->wait_for_event(array->sync_event, place, on.on_device(place));
    return take_arrow(std::move(tree), &array->array);
}

}  // namespace detail

FERRY_INLINE column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema, std::source_location where) {
    auto made = detail::take_device_array(array, schema, nullptr, {}, where);
    detail::release_schema(schema);
    return made;
}

FERRY_INLINE column from_arrow(ArrowDeviceArray* array, ArrowSchema* schema, arrow_events_ref b, stream_token on,
                               std::source_location where) {
    auto made = detail::take_device_array(array, schema, &b, on, where);
    detail::release_schema(schema);
    return made;
}

FERRY_INLINE void to_arrow(column const& c, ArrowDeviceArray* out, arrow_events_ref b, stream_token ready_on,
                           std::source_location where) {
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

FERRY_INLINE void to_arrow(column const& c, ArrowDeviceArray* out, std::source_location where) {
    if (out == nullptr)
        detail::fail(errc::argument, "ferry::to_arrow",
                     message{"the ArrowDeviceArray to write to is null: pass a struct"}, where);
    *out = detail::make_device_array(c.view(), c.owner(), nullptr, {"ferry::to_arrow", where});
}

}  // namespace FERRY_NAMESPACE
