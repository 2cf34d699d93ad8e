// Arrays whose ready_on returns an event: the wait, for which ferry asks only when it is needed.
#include <support/sim_world.hpp>

#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <utility>

namespace {

using namespace support;

/// An event that waits without help of the back end.
struct own_event {
    sim_system* sim;
    sim_gate reached;
    void wait_for_event(device, stream_token on) const {
        if (on.names_stream()) sim->queue(on, [gate = reached] { gate.pass(); });
        else reached.pass();
    }
};

/// An event for which the back end waits.
struct foreign_event {
    sim_gate reached;
};
struct event_back_end : ferry::detail::changed_back_end<sim_system> {
    using changed_back_end::changed_back_end;
    int waits = 0;
    bool fails = false;
    ferry::result<> wait_for_event(foreign_event const& e, device, stream_token on) {
        ++waits;
        if (fails) return ferry::error{errc::driver, "sim", ferry::message{"injected"}};
        if (on.names_stream()) underneath().queue(on, [gate = e.reached] { gate.pass(); });
        else e.reached.pass();
        return {};
    }
};

/// An array whose data is ready before the later work of its stream.
template <class Event>
struct ahead {
    sim_array array;
    Event ready;
    int* asked;
};

/// Six floats that are ready at an event on `theirs`, and a gate that blocks the later work of that stream.
struct prefetching {
    sim_world w;
    sim_gate data, next;
    int asked = 0;
    ahead<own_event> array;

    explicit prefetching(device where = sim_world::gpu) : w{where}, array{{}, {&w.back_end, {}}, &asked} {
        auto closed = w.closed(where, w.theirs);
        data = closed.gate;
        array.array = std::move(closed.array);
        w.back_end.queue(w.theirs, [gate = array.ready.reached] { gate.open(); });
        next = w.back_end.close(w.theirs);
    }
};

/// A consumer that receives the stream.
struct streamed {
    managed_tensor tensor;
    stream_token ready;
};

}  // namespace

template <class Event>
struct ferry::array_traits<ahead<Event>> {
    static tensor_view view(ahead<Event> const& a) { return array_traits<sim_array>::view(a.array); }
    static ahead<Event> share(ahead<Event> const& a) { return a; }
    static Event ready_on(ahead<Event> const& a) { return ++*a.asked, a.ready; }
};
template <>
struct ferry::array_traits<streamed> {
    static streamed adopt(managed_tensor m, stream_token ready) { return {std::move(m), ready}; }
};

TEST_CASE("R43: an export onto a stream waits for the event of the array, and not for later work on its stream") {
    for (bool const moved : {false, true})
        for (auto const policy : {copy_policy::if_needed, copy_policy::always}) {
            CAPTURE(moved);
            CAPTURE(int(policy));
            prefetching p;
            request const req{.copy = policy, .stream = p.w.ours};
            auto const got = moved ? ferry::to_dlpack(std::move(p.array), req, p.w.back_end)
                                   : ferry::to_dlpack(p.array, req, p.w.back_end);
            CHECK(p.asked == 1);
            CHECK(!p.data.is_open());  // the export did not block
            CHECK(p.w.back_end.calls(verb::order) == 0);
            CHECK(p.w.back_end.calls(verb::wait) == 0);
            p.data.open();
            p.w.finish(p.w.ours);
            CHECK(!p.next.is_open());
            CHECK(p.w.value(got.view(), 5) == 6.0f);
        }
}

TEST_CASE("R43, R46: the event is not asked for an export without synchronisation, or from host memory") {
    prefetching p;
    auto const got = ferry::to_dlpack(p.array, {.stream = ferry::already_ready}, p.w.back_end);
    CHECK(p.asked == 0);
    CHECK(got.view().data() == p.array.array.first());
    auto const imported = ferry::from_dlpack<streamed>(p.array, {.stream = ferry::already_ready}, p.w.back_end);
    CHECK(p.asked == 0);
    CHECK(imported.ready.is_no_sync());
    ahead<own_event> host{{}, {&p.w.back_end, {}}, &p.asked};
    host.array = {std::make_shared<sim_memory>(p.w.back_end.make_memory(ferry::cpu, 4)), {1}, {}, ferry::cpu, {}};
    static_cast<void>(ferry::to_dlpack(host, {}, p.w.back_end));
    CHECK(p.asked == 0);
    p.data.open();
}

TEST_CASE("R44: without a stream in the request, the default stream waits for the event") {
    prefetching p;
    auto const got = ferry::to_dlpack(p.array, {}, p.w.back_end);
    CHECK(p.asked == 1);
    CHECK(!p.data.is_open());
    p.data.open();
    p.w.finish(stream_token::cuda_legacy_default());
    CHECK(p.w.value(got.view(), 5) == 6.0f);
}

TEST_CASE("R48, R49: the host waits for the event where the data must be complete on return") {
    {
        prefetching p;
        p.data.open();
        auto const here = ferry::to_host(p.array, p.w.back_end);
        CHECK(p.asked == 1);
        CHECK(!p.next.is_open());
        CHECK(static_cast<float const*>(here.view().data())[5] == 6.0f);
    }
    for (auto const where : {sim_world::pinned, sim_world::managed}) {  // no default stream
        prefetching p{where};
        p.data.open();
        auto const got = ferry::to_dlpack(p.array, {}, p.w.back_end);
        CHECK(p.asked == 1);
        CHECK(static_cast<float const*>(got.view().data())[5] == 6.0f);
    }
    prefetching p;  // a copy without synchronisation reads the data
    p.data.open();
    auto const got = ferry::to_dlpack(p.array, {.copy = copy_policy::always, .stream = ferry::already_ready}, p.w.back_end);
    CHECK(p.asked == 1);
    CHECK(p.w.value(got.view(), 5) == 6.0f);
}

TEST_CASE("R43: adopt receives the stream that waits for the event") {
    prefetching p;
    auto const got = ferry::from_dlpack<streamed>(p.array, {.stream = p.w.ours}, p.w.back_end);
    CHECK(got.ready == p.w.ours);
    p.data.open();
    p.w.finish(p.w.ours);
    CHECK(p.w.value(got.tensor.view(), 5) == 6.0f);
}

TEST_CASE("R43: the back end waits for an event that cannot wait by itself, and its failure is that of the export") {
    prefetching p;
    event_back_end b{p.w.back_end};
    int asked = 0;
    ahead<foreign_event> array{p.array.array, {p.array.ready.reached}, &asked};
    auto const got = ferry::to_dlpack(array, {.stream = p.w.ours}, b);
    CHECK(b.waits == 1);
    p.data.open();
    p.w.finish(p.w.ours);
    CHECK(p.w.value(got.view(), 5) == 6.0f);
    b.fails = true;
    fails(errc::driver, [&] { (void)ferry::to_dlpack(array, {.stream = p.w.ours}, b); }, {"injected"});
    fails(errc::driver, [&] { (void)ferry::to_dlpack(array, {.copy = copy_policy::always}, b); }, {"injected"});
    CHECK(p.w.back_end.calls(verb::copy) == 0);
}

TEST_CASE("R40: the event is not asked when the back end does not reach the device, or the export is refused") {
    prefetching p;
    fails(errc::no_backend, [&] { (void)ferry::to_dlpack(p.array, {}); }, {"cuda"});
    fails(errc::copy_needed,
          [&] { (void)ferry::to_dlpack(p.array, {.device = ferry::cpu, .copy = copy_policy::never}, p.w.back_end); },
          {"another device"});
    CHECK(p.asked == 0);
    p.data.open();
}

TEST_CASE("R43: interfaces without events get the default stream, which waits for the event, or a wait of the host") {
    {
        prefetching p;
        auto const on = ferry::detail::ready_stream(p.array, p.w.back_end, {"test", {}});
        CHECK(on == stream_token::cuda_legacy_default());
        CHECK(!p.data.is_open());
        p.data.open();
        p.w.finish(on);
        CHECK(p.w.value(ferry::view_of(p.array), 5) == 6.0f);
    }
    prefetching p{sim_world::pinned};
    p.data.open();
    CHECK(ferry::detail::ready_stream(p.array, p.w.back_end, {"test", {}}).is_no_sync());
    CHECK(p.array.ready.reached.is_open());
}
