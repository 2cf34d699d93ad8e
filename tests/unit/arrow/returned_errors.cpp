// A back end whose operations return a result, and streams that do not fit the device of an array.
#include <support/returned_errors.hpp>

#include <ferry/arrow.hpp>
#include <support/fails.hpp>
#include <support/sim_arrow.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>

namespace {

using ferry::device_type;
using ferry::errc;
using ferry::stream_token;
using support::fails;

ferry::device const gpu{device_type::cuda, 1};

struct returning_arrow : support::returning_back_end {
    support::sim_arrow* events;

    returning_arrow(support::sim_system& sim, support::sim_arrow& e) : returning_back_end{sim}, events{&e} {}
    [[nodiscard]] auto wait_for_event(void* event, ferry::device d, stream_token on) {
        return calls.call("wait_for_event", [&] { events->wait_for_event(event, d, on); });
    }
    [[nodiscard]] auto record_event(ferry::device d, stream_token on) {
        return calls.call("record_event", [&] { return events->record_event(d, on); });
    }
};
static_assert(ferry::arrow_event_back_end<returning_arrow>);

struct world {
    support::sim_system sim{gpu};
    support::sim_arrow events{sim};
    returning_arrow b{sim, events};
    stream_token const on = sim.make_stream(gpu.type);

    /// Five numbers on the device.
    [[nodiscard]] ferry::column make() {
        auto const memory = std::make_shared<support::sim_memory>(sim.make_memory(gpu, 20));
        ferry::column_buffer const buffers[] = {{}, {memory->data(), 20}};
        return ferry::make_column({.format = "i", .length = 5, .buffers = buffers}, memory, gpu);
    }
};
/// Structs that are released on destruction.
struct structs {
    ArrowDeviceArray array{};
    ArrowSchema schema{};
    structs() = default;
    structs(structs const&) = delete;
    structs& operator=(structs const&) = delete;
    ~structs() {
        if (array.array.release != nullptr) array.array.release(&array.array);
        if (schema.release != nullptr) schema.release(&schema);
    }
};

}  // namespace

TEST_CASE("exports and imports of arrays fail with the error of each operation that a back end returns") {
    world w;
    support::fails_at_each_operation(w.b.calls, w.sim, "record_event", [&] {
        structs out;
        ferry::to_arrow(w.make(), &out.array, w.b, w.on);
        return 0;
    });
    support::fails_at_each_operation(w.b.calls, w.sim, "wait_for_event", [&] {
        structs in;
        auto const c = w.make();
        ferry::to_arrow(c, &in.array, w.events, w.on);
        ferry::to_arrow_schema(c, &in.schema);
        return ferry::from_arrow(&in.array, &in.schema, w.b, w.on);
    });
    CHECK(w.events.live_events == 0);
}

TEST_CASE("R43: exports and imports of arrays refuse a stream that the device does not use") {
    world w;
    auto const c = w.make();
    structs in;
    ferry::to_arrow(c, &in.array, w.events, w.on);
    ferry::to_arrow_schema(c, &in.schema);
    for (auto const& bad : {stream_token::from_cuda_handle(0), stream_token::rocm_default(),
                            stream_token::native(device_type::vulkan, 16), stream_token::native(device_type::cpu, 16),
                            stream_token::cuda_legacy_default(0), stream_token::cuda_per_thread_default(0)}) {
        structs out;
        fails(errc::stream, [&] { ferry::to_arrow(c, &out.array, w.events, bad); }, {"pass"});
        CHECK(!out.array.array.release);
        fails(errc::stream, [&] { static_cast<void>(ferry::from_arrow(&in.array, &in.schema, w.events, bad)); });
    }
    CHECK(w.events.waits == 0);
    CHECK(ferry::from_arrow(&in.array, &in.schema, w.events, stream_token::cuda_legacy_default(1)).length() == 5);
}

TEST_CASE("R46: an array in host memory is ready, and has no event, whatever stream is passed") {
    world w;
    structs out;
    std::int32_t const numbers[] = {1, 2};
    ferry::column_buffer const buffers[] = {{}, {numbers, sizeof numbers}};
    auto const c = ferry::make_column({.format = "i", .length = 2, .buffers = buffers}, nullptr);
    ferry::to_arrow(c, &out.array, w.events, w.on);
    ferry::to_arrow_schema(c, &out.schema);
    CHECK(out.array.sync_event == nullptr);
    CHECK(ferry::from_arrow(&out.array, &out.schema, w.events, w.on).length() == 2);
}
