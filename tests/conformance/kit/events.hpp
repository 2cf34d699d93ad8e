// The kit's array, whose ready_on returns an event that adopt records.
#pragma once

#include <ferry/conformance.hpp>

#include "library.hpp"

#include <utility>

namespace events {

enum class fault { none, recorded_elsewhere, complete, never_waits };
inline fault now = fault::none;

using device_event = ferry::conformance::sim_device::event;

/// An event that waits without help of the back end.
struct event {
    ferry::conformance::sim_device* library;
    device_event recorded;
    void wait_for_event(ferry::device d, ferry::stream_token on) const {
        if (library != nullptr && now != fault::never_waits) library->wait_for_event(recorded, d, on);
    }
};

struct array : library::array {
    event ready{};
};

struct maker {
    array operator()(ferry::shape_view s, ferry::data_type t) const { return {library::maker{}(s, t)}; }
    array strided(ferry::shape_view s) const { return {library::maker{}.strided(s)}; }
    array read_only(ferry::shape_view s) const { return {library::maker{}.read_only(s)}; }
    long long live() const { return library::live; }
};

}  // namespace events

template <>
struct ferry::array_traits<events::array> {
    using base = array_traits<library::array>;
    using array = events::array;
    static constexpr bool lend_read_only = true;
    static tensor_view view(array const& a) { return base::view(a); }
    static array share(array const& a) { return {base::share(a), a.ready}; }
    static array adopt(managed_tensor m, stream_token ready) {
        array a{base::adopt(std::move(m), ready)};
        auto* const gpu = conformance::sim_device::current();
        if (gpu == nullptr || a.device == cpu || events::now == events::fault::complete) return a;
        if (events::now == events::fault::recorded_elsewhere) ready = gpu->make_stream();
        a.ready = {gpu, gpu->record_event(a.device, ready)};
        return a;
    }
    static array allocate(data_type t, shape_view s, device d, stream_token) { return {base::allocate(t, s, d)}; }
    static events::event ready_on(array const& a) { return a.ready; }
    static stream_token current_stream(device d) { return base::current_stream(d); }
};
