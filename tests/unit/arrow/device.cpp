// Arrow's C device interface on a simulated device: gates hold the producer's stream, so that a missing wait is
// detected.
#include <ferry/arrow.hpp>
#include <ferry/column/make_struct.hpp>

#include <support/allocation_failure.hpp>
#include <support/arrow_producer.hpp>
#include <support/fails.hpp>
#include <support/sim_arrow.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

using ferry::column;
using ferry::column_buffer;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::stream_token;
using namespace support;

namespace {

std::int32_t const numbers[] = {1, 2, 3, 4, 5};

/// Five numbers in memory of a simulated device, which are written when the gate of the producer's stream opens.
struct world {
    explicit world(device_type type = device_type::cuda) : place{type, ferry::is_host_accessible(type) ? 0 : 1} {
        sim.write(producer, memory->block(), numbers, sizeof numbers);
        buffers[1] = {memory->data(), sizeof numbers};
    }
    [[nodiscard]] column make() const {
        return ferry::make_column({.format = "i", .name = "n", .length = 5, .buffers = buffers}, memory, place);
    }
    /// An export of them, with an event when `ready_on` names a stream.
    void export_to(ArrowDeviceArray& array, ArrowSchema& schema, stream_token ready_on) {
        auto const c = make();
        ferry::to_arrow(c, &array, events, ready_on);
        ferry::to_arrow_schema(c, &schema);
    }
    [[nodiscard]] bool has_passed(stream_token on) {
        auto const passed = std::make_shared<std::atomic<bool>>(false);
        sim.queue(on, [passed] { *passed = true; });
        std::this_thread::sleep_for(std::chrono::milliseconds{30});
        return *passed;
    }

    device place;
    sim_system sim{device{device_type::cuda, 1}, device_type::cuda_managed, device_type::cuda_host};
    sim_arrow events{sim};
    stream_token const producer = sim.make_stream(device_type::cuda), consumer = sim.make_stream(device_type::cuda);
    sim_gate gate = sim.close(producer);
    std::shared_ptr<sim_memory> memory = std::make_shared<sim_memory>(sim.make_memory(place, sizeof numbers));
    column_buffer buffers[2]{};
};

}  // namespace

TEST_CASE("an array that is not ready is imported without blocking: the consumer's stream waits for its event") {
    for (auto const type : {device_type::cuda, device_type::cuda_host, device_type::cuda_managed}) {
        world w{type};
        ArrowDeviceArray array{};
        ArrowSchema schema{};
        w.export_to(array, schema, w.producer);
        REQUIRE(array.sync_event != nullptr);
        CHECK(array.device_type == static_cast<std::int32_t>(type));
        CHECK(array.device_id == w.place.id);
        auto const c = ferry::from_arrow(&array, &schema, w.events, w.consumer);  // returns while the gate is closed
        CHECK(c.device() == w.place);
        CHECK(!w.has_passed(w.consumer));
        w.gate.open();
        w.sim.finish(w.consumer);
        auto const v = c.view();
        CHECK(w.sim.read<std::int32_t>(static_cast<std::int32_t const*>(v.buffers()[1].data) + 4) == 5);
        CHECK(v.buffers()[1].bytes == -1);
    }
}

TEST_CASE("without a stream the host waits for the event") {
    world w;
    ArrowDeviceArray array{};
    ArrowSchema schema{};
    w.export_to(array, schema, w.producer);
    std::atomic<bool> has_returned = false;
    std::thread importer{[&] {
        auto const c = ferry::from_arrow(&array, &schema, w.events);
        has_returned = true;
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds{30});
    CHECK(!has_returned);
    w.gate.open();
    importer.join();
    CHECK(w.events.waits == 1);
}

TEST_CASE("an import without an event, or with no_sync, does not wait") {
    world w;
    ArrowDeviceArray array{};
    ArrowSchema schema{};
    w.export_to(array, schema, {});
    CHECK(array.sync_event == nullptr);
    static_cast<void>(ferry::from_arrow(&array, &schema, w.events, w.consumer));
    w.export_to(array, schema, w.producer);
    static_cast<void>(ferry::from_arrow(&array, &schema, w.events, stream_token::no_sync()));
    CHECK(w.events.waits == 0);
    w.gate.open();
}

TEST_CASE("the event is valid until the last struct of its array is released") {
    world w;
    w.gate.open();
    ArrowDeviceArray array{};
    ArrowSchema schema{};
    w.export_to(array, schema, w.producer);
    CHECK(w.events.live_events == 1);
    w.memory = nullptr;
    {
        auto const c = ferry::from_arrow(&array, &schema, w.events, w.consumer);
        CHECK(w.events.live_events == 1);
        CHECK(w.sim.live_bytes() > 0);
        w.sim.finish(w.consumer);
    }
    CHECK(w.events.live_events == 0);
    CHECK(w.sim.live_bytes() == 0);
}

TEST_CASE("a failed call takes no ownership, writes nothing and leaks nothing") {
    world w;
    w.gate.open();
    ArrowDeviceArray array{};
    ArrowSchema schema{};
    w.export_to(array, schema, w.producer);
    w.events.fails = true;
    auto const before = array;
    fails(errc::driver, [&] { static_cast<void>(ferry::from_arrow(&array, &schema, w.events, w.consumer)); });
    CHECK(std::memcmp(&before, &array, sizeof array) == 0);
    CHECK(!!schema.release);
    ArrowDeviceArray out{};
    auto const c = w.make();
    fails(errc::driver, [&] { ferry::to_arrow(c, &out, w.events, w.producer); });
    CHECK(!out.array.release);
    w.events.fails = false;
    sim_system plain{};
    sim_arrow elsewhere{plain};
    fails(errc::no_backend, [&] { static_cast<void>(ferry::from_arrow(&array, &schema, elsewhere)); }, {"cuda:1"});
    fails(errc::no_backend, [&] { static_cast<void>(ferry::from_arrow(&array, &schema)); },
          {"cuda:1", "<ferry/cuda/arrow.hpp>"});
    auto const other = stream_token::native(device_type::ext_dev, 7);
    fails(errc::stream, [&] { static_cast<void>(ferry::from_arrow(&array, &schema, w.events, other)); });
    fails(errc::stream, [&] { ferry::to_arrow(c, &out, w.events, other); });
    fails(errc::no_backend, [&] { ferry::to_arrow(c, &out, elsewhere, w.producer); });
    fails(errc::argument,
          [&] { static_cast<void>(ferry::from_arrow(static_cast<ArrowDeviceArray*>(nullptr), &schema)); });
    fails(errc::argument, [&] { ferry::to_arrow(c, static_cast<ArrowDeviceArray*>(nullptr), w.events); });
    for (auto const& [type, id] : {std::pair{5, 0}, {2, -1}, {99, 0}}) {
        auto odd = array;
        odd.device_type = type, odd.device_id = id;
        fails(errc::device, [&] { static_cast<void>(ferry::from_arrow(&odd, &schema, w.events)); });
    }
    CHECK(!out.array.release);
    array.array.release(&array.array);
    schema.release(&schema);
    CHECK(w.events.live_events == 0);
    w.sim.finish(w.producer);
    support::for_each_failing_allocation([&](int) {
        ArrowDeviceArray to{};
        ferry::to_arrow(c, &to, w.events, stream_token{});
        to.array.release(&to.array);
    });
}

TEST_CASE("host memory is exported through the same interface, as device -1") {
    column_buffer const buffers[] = {{}, {numbers, sizeof numbers}};
    auto const c = ferry::make_column({.format = "i", .length = 5, .buffers = buffers}, nullptr);
    ArrowDeviceArray array{};
    std::memset(&array, 0xff, sizeof array);
    ArrowSchema schema{};
    ferry::to_arrow(c, &array);
    ferry::to_arrow_schema(c, &schema);
    CHECK(array.device_id == -1);
    CHECK(array.device_type == 1);
    CHECK(array.sync_event == nullptr);
    for (auto const word : array.reserved) CHECK(word == 0);
    array.reserved[1] = 7;  // a value of a later version
    auto const back = ferry::from_arrow(&array, &schema);
    CHECK(back.device() == ferry::cpu);
    CHECK(!array.array.release);
    sim_system sim{};
    sim_arrow events{sim};
    ferry::to_arrow(c, &array, events);
    ferry::to_arrow_schema(c, &schema);
    static_cast<void>(ferry::from_arrow(&array, &schema, events));
    CHECK(events.waits == 0);
}

TEST_CASE("the lengths of a view type's data are not read in device memory") {
    world w;
    w.gate.open();
    auto const block = w.sim.make_memory(w.place, 64);
    column_buffer const views[] = {{}, {block.data(), 16}, {block.data(), -1}, {block.data(), 8}};
    support::arrow_producer p{{.format = "vu", .length = 1, .buffers = views}};
    ArrowDeviceArray array{};
    array.array = p.array, array.device_type = 2, array.device_id = 1;
    auto const c = ferry::from_arrow(&array, &p.schema, w.events);
    CHECK(c.view().buffers()[2].bytes == -1);
    CHECK(c.view().buffers()[3].bytes == 8);
    w.sim.finish(w.producer);
}

TEST_CASE("the validity of a slice is not read in device memory: the items of its first byte stay in front") {
    for (auto const type : {device_type::cuda, device_type::cuda_managed}) {
        world w{type};
        auto const valid = std::make_shared<sim_memory>(w.sim.make_memory(w.place, 8));
        auto const exported = [&](std::int64_t begin, std::int64_t null_count) {
            column_buffer const none[] = {{}, {valid->data(), -1}}, bits[] = {{valid->data(), 8}};
            ferry::column_parts const leaf{.format = "i", .length = 64, .buffers = none};
            auto const c = ferry::make_column(
                {.format = "+s", .length = 64, .null_count = null_count, .buffers = bits, .children = {&leaf, 1}},
                valid, w.place);
            ArrowDeviceArray array{};
            ferry::to_arrow(c.slice(begin, 20), &array, w.events);
            return array;
        };
        auto const* const bits = static_cast<unsigned char const*>(valid->data());
        for (std::int64_t const begin : {0, 5, 8, 19, 32}) {
            auto array = exported(begin, -1);
            CHECK(array.array.offset == begin % 8);
            CHECK(array.array.length == 20);
            CHECK(array.array.buffers[0] == bits + begin / 8);
            CHECK(array.array.children[0]->offset == begin / 8 * 8);
            CHECK(array.array.children[0]->length == begin % 8 + 20);
            array.array.release(&array.array);
        }
        auto array = exported(19, 0);
        CHECK(array.array.offset == 0);
        CHECK(array.array.buffers[0] == nullptr);
        CHECK(array.array.children[0]->offset == 19);
        array.array.release(&array.array);
        w.gate.open();
    }
}

TEST_CASE("the offsets of an empty slice are not read in device memory: its child begins where the slice does") {
    world w;
    auto const offsets = std::make_shared<sim_memory>(w.sim.make_memory(w.place, 64));
    column_buffer const text[] = {{}, {offsets->data(), 64}, {offsets->data(), -1}}, items[] = {{}, text[1]}, none[1]{};
    ferry::column_parts const children[] = {{.format = "u", .length = 8, .offset = 2, .buffers = text},
                                            {.format = "i", .length = 8, .offset = 2, .buffers = items}};
    auto const c =
        ferry::make_column({.format = "+s", .length = 8, .buffers = none, .children = children}, offsets, w.place);
    ArrowDeviceArray array{};
    ferry::to_arrow(c.slice(3, 0), &array, w.events);
    CHECK(array.array.children[0]->offset == 5);
    CHECK(array.array.children[0]->buffers[1] == offsets->data());
    CHECK(array.array.children[1]->offset == 0);
    array.array.release(&array.array);
    w.gate.open();
}

TEST_CASE("D24: the event of an exported array is get() of the event, also if that has data()") {
    struct event {
        [[nodiscard]] int* get() const { return first; }
        [[nodiscard]] int* data() const { return first + 1; }
        int* first;
    };
    struct back_end {
        [[nodiscard]] bool reaches(ferry::device) const { return true; }
        void wait_for_event(void*, ferry::device, ferry::stream_token) const {}
        [[nodiscard]] event record_event(ferry::device, ferry::stream_token) const { return {first}; }
        int* first;
    };
    std::int32_t const values[] = {1, 2, 3};
    ferry::column_buffer const buffers[] = {{}, {values, sizeof values}};
    auto const c = ferry::make_column({.format = "i", .length = 3, .buffers = buffers}, nullptr,
                                      ferry::device{ferry::device_type::cuda});
    int events[2] = {};
    ArrowDeviceArray array{};
    ferry::to_arrow(c, &array, back_end{events}, ferry::stream_token::from_cuda_handle(std::uintptr_t{16}));
    CHECK(array.sync_event == events);
    array.array.release(&array.array);
}

TEST_CASE("a column on several devices is exported child by child: each interface has one device") {
    world w;
    column const near[] = {ferry::make_column({.format = "n", .name = "h", .length = 5}, nullptr), w.make()};
    auto const table = ferry::make_struct(near, "t");
    ArrowDeviceArray array{};
    auto const refused = [&](auto write) {
        fails(errc::device, write, {"t.n is on cuda:1, and the column on cpu:0", "export the children", "to()"});
        CHECK((array.array.release == nullptr));
    };
    refused([&] { ferry::to_arrow(table, &array); });
    refused([&] { ferry::to_arrow(table, &array, w.events); });
    fails(errc::not_accessible, [&] { ferry::to_arrow(table, &array.array); }, {"t.n is on cuda:1"});
    ferry::to_arrow(table.child("n"), &array);
    CHECK(array.device_id == 1);
    array.array.release(&array.array);
    w.gate.open();
}
