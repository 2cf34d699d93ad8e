// D17: a back end whose operations return a result. The failure of each operation of an exchange is its error.
#include <support/returned_errors.hpp>

#include <ferry/ferry.hpp>
#include <support/fails.hpp>
#include <support/sim_world.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

namespace {

using namespace support;

constexpr device gpu = sim_world::gpu, other_gpu = sim_world::other_gpu, pinned = sim_world::pinned;

struct world {
    sim_system sim{gpu, other_gpu, pinned};
    returning_back_end b{sim};
    stream_token theirs = sim.make_stream(device_type::cuda), ours = sim.make_stream(device_type::cuda);

    [[nodiscard]] sim_array array(device d = gpu) { return make_array(sim, d, theirs, {2, 3}); }
    [[nodiscard]] managed_tensor tensor(device d = gpu) {
        return ferry::to_dlpack(array(d), {.stream = stream_token::no_sync()});
    }
    template <class Verb>
    void each_fails(char const* operations, Verb verb) {
        fails_at_each_operation(b.calls, sim, operations, verb);
    }
};

struct event {
    sim_gate reached{};
};
/// An event whose own function returns a result.
struct own_event {
    called_operations* calls;
    [[nodiscard]] ferry::result<> wait_for_event(device, stream_token) const {
        return calls->call("event.wait", [] {});
    }
};
struct event_back_end : returning_back_end {
    using returning_back_end::returning_back_end;
    [[nodiscard]] auto wait_for_event(event const&, device, stream_token) {
        return calls.call("wait_for_event", [] {});
    }
};

/// An array whose data is ready at an event.
template <class Event>
struct behind {
    sim_array array;
    Event ready;
};

}  // namespace

template <class Event>
struct ferry::array_traits<behind<Event>> {
    static tensor_view view(behind<Event> const& a) { return array_traits<sim_array>::view(a.array); }
    static behind<Event> share(behind<Event> const& a) { return a; }
    static Event ready_on(behind<Event> const& a) { return a.ready; }
};

TEST_CASE("an export fails with the error of each operation that a back end returns, and keeps no memory") {
    world w;
    request const copy{.copy = copy_policy::always, .stream = w.ours};
    w.each_fails("allocate order copy mark", [&] { return ferry::to_dlpack(w.array(), copy, w.b); });
    w.each_fails("allocate order copy mark", [&] { return ferry::try_to_dlpack(w.array(), copy, w.b); });
    auto const kept = w.array();
    w.each_fails("allocate order copy mark", [&] { return ferry::try_to_dlpack(kept, copy, w.b); });
    w.each_fails("order", [&] { return ferry::to_dlpack(kept, {.stream = w.ours}, w.b); });
    w.each_fails("order", [&] { return ferry::try_to_dlpack(w.tensor(), {.stream = w.ours}, w.b, w.theirs); });
    w.each_fails("wait", [&] { return ferry::try_to_dlpack(w.array(pinned), {.device = ferry::cpu}, w.b); });
    w.each_fails("allocate order copy mark",
                 [&] { return ferry::to_dlpack(w.tensor(), {.device = other_gpu, .stream = w.ours}, w.b, w.theirs); });
    w.each_fails("allocate copy wait", [&] { return ferry::to_dlpack(kept, {.device = ferry::cpu}, w.b); });
}

TEST_CASE("an import fails with the error of each operation that a back end returns, and keeps no memory") {
    world w;
    request const to_other{.device = other_gpu, .stream = w.ours}, shared{.stream = w.ours};
    w.each_fails("allocate order copy mark",
                 [&] { return ferry::from_dlpack<taken>(w.tensor(), to_other, w.b, w.theirs); });
    w.each_fails("allocate order copy mark",
                 [&] { return ferry::try_from_dlpack<taken>(w.tensor(), to_other, w.b, w.theirs); });
    w.each_fails("order", [&] { return ferry::try_from_dlpack<managed_tensor>(w.array(), shared, w.b); });
    w.each_fails("order", [&] { return ferry::try_from_dlpack<taken>(w.tensor(), shared, w.b, w.theirs); });
    w.each_fails("allocate copy wait", [&] { return ferry::to_host(w.array(), w.b); });
    w.each_fails("allocate copy wait", [&] { return ferry::try_to_host(w.tensor(), w.b, w.theirs); });
    w.each_fails("wait", [&] { return ferry::try_to_host(w.tensor(pinned), w.b, w.theirs); });
    auto const kept = w.tensor();
    w.each_fails("allocate copy wait", [&] { return ferry::try_to_host(kept, w.b, w.theirs); });
}

TEST_CASE("a wait for an event that returns an error is the error of the exchange") {
    world w;
    event_back_end b{w.sim};
    auto const each_fails = [&](char const* operations, auto verb) {
        fails_at_each_operation(b.calls, w.sim, operations, verb);
    };
    behind<event> const array{w.array(), {}};
    behind<own_event> const other{w.array(), {&b.calls}};
    each_fails("wait_for_event", [&] { return ferry::to_dlpack(array, {.stream = w.ours}, b); });
    each_fails("wait_for_event", [&] { return ferry::try_to_dlpack(array, {.stream = w.ours}, b); });
    each_fails("event.wait", [&] { return ferry::try_to_dlpack(other, {.stream = w.ours}, b); });
    each_fails("wait_for_event allocate copy", [&] { return ferry::try_to_host(array, b); });
}

TEST_CASE("copy fails with the error of each operation that a back end returns") {
    world w;
    auto const from = w.tensor(), to = w.tensor();
    auto const when_idle = [&] { w.sim.wait(w.theirs); };  // what was queued before writes the destination
    w.each_fails("copy wait", [&] {
        when_idle();
        return ferry::copy(to.view(), from.view(), w.b, w.theirs);
    });
    w.each_fails("copy wait", [&] {
        when_idle();
        return ferry::try_copy(to.view(), from.view(), w.b, w.theirs);
    });
}

TEST_CASE("a back end that forwards to another one returns its errors") {
    world w;
    ferry::destination in{ferry::host_space{}, w.b};
    w.each_fails("copy wait", [&] { return ferry::try_to_host(w.array(), in); });
    w.each_fails("wait", [&] { return ferry::try_to_host(w.array(pinned), in); });
    w.each_fails("order", [&] { return ferry::try_to_dlpack(w.array(), {.stream = w.ours}, in); });
}
