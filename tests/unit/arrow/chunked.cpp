// Chunks of one type: imported from streams without joining them, and exported, in host memory and on a simulated
// device.
#include <ferry/arrow.hpp>
#include <ferry/arrow/concat.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>
#include <support/sim_arrow.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using ferry::chunked;
using ferry::column;
using ferry::column_buffer;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using support::fails;

namespace {

std::int32_t const numbers[] = {1, 2, 3, 4, 5};

column make(std::int64_t length, std::shared_ptr<void const> owner = nullptr, device on = ferry::cpu,
            std::int64_t flags = 2) {
    column_buffer const five[] = {{}, {numbers, sizeof numbers}};
    return ferry::make_column({.format = "i", .name = "n", .length = length, .buffers = five, .flags = flags},
                              std::move(owner), on);
}

template <class Stream>
struct array_of;
template <>
struct array_of<ArrowArrayStream> {
    using type = ArrowArray;
};
template <>
struct array_of<ArrowDeviceArrayStream> {
    using type = ArrowDeviceArray;
};

/// A stream of any kind that returns a number of chunks, then fails with a code, or ends when that is 0. Counts the
/// releases of the stream, and knows whether all chunks were released.
template <class Stream>
struct producer {
    using array = typename array_of<Stream>::type;
    std::shared_ptr<int> owner = std::make_shared<int>();
    int chunks = 0, result = 0, released = 0, asked = 0;
    bool has_no_schema = false;
    char const* text = "the disk is on fire";
    device on = ferry::cpu;
    Stream stream{};

    producer(int chunks_, int result_) : chunks{chunks_}, result{result_} {
        stream.private_data = this;
        if constexpr (requires { stream.device_type; }) stream.device_type = ARROW_DEVICE_CPU;
        stream.get_schema = [](Stream* s, ArrowSchema* out) {
            if (of(s).has_no_schema) return of(s).result;
            ferry::to_arrow_schema(make(0), out);
            return 0;
        };
        stream.get_next = [](Stream* s, array* out) {
            auto& me = of(s);
            *out = array{};
            if (me.asked++ >= me.chunks) return me.result;
            ferry::to_arrow(make(me.asked, me.owner, me.on), out);
            return 0;
        };
        stream.get_last_error = [](Stream* s) { return of(s).text; };
        stream.release = [](Stream* s) { ++of(s).released, s->release = nullptr; };
    }
    static producer& of(Stream* s) { return *static_cast<producer*>(s->private_data); }
    [[nodiscard]] bool is_released_once() const { return released == 1 && owner.use_count() == 1 && !stream.release; }
};

}  // namespace

TEST_CASE("a chunked value has the type, the chunks and the length, and joins them if asked") {
    chunked const none;
    CHECK(none.length() == 0);
    CHECK(none.type().format() == "n");
    CHECK(ferry::concat(none).format() == "n");
    auto const c = make(3);
    chunked const one{c};
    CHECK(one.length() == 3);
    CHECK(one.chunks().size() == 1);
    auto const same = ferry::concat(one);
    CHECK(same.view().buffers()[1].data == numbers);
    CHECK(one.type().length() == 0);
    CHECK(one.type().name() == "n");
    chunked all{{make(5, nullptr, ferry::cpu, 0), make(0), make(2).slice(1, 1)}, c};
    CHECK(all.length() == 6);
    CHECK(all.type().view().is_nullable());
    auto const joined = ferry::concat(all);
    CHECK(support::shown(joined.view()) ==
          std::vector<std::string>{"01000000", "02000000", "03000000", "04000000", "05000000", "02000000"});
    auto const copy = all;
    CHECK(std::move(all).length() == 6);
    auto const moved = std::move(all);
    CHECK(moved.length() == 6);
    CHECK(all.length() == 0);  // NOLINT: a value that was moved from is empty
    CHECK(copy.length() == 6);
}

TEST_CASE("chunks of different types, or too many items, are refused") {
    column_buffer const two[] = {{}, {numbers, 16}};
    auto const other = ferry::make_column({.format = "l", .length = 2, .buffers = two}, nullptr);
    fails(errc::argument, [&] { static_cast<void>(chunked{{make(1), other}, make(0)}); },
          {"ferry::chunked: chunk 1 is of another type", "`l`, expected `i`"});
    auto const huge = ferry::make_column({.format = "n", .length = std::int64_t{1} << 62}, nullptr);
    fails(errc::overflow, [&] { static_cast<void>(chunked{{huge, huge}, huge}); }, {"63 bits"});
}

TEST_CASE_TEMPLATE("a stream is read without joining its chunks, and released once at its end", Stream,
                   ArrowArrayStream, ArrowDeviceArrayStream) {
    producer<Stream> p{3, 0};
    {
        auto const c = ferry::from_arrow(&p.stream);
        CHECK(p.released == 1);
        CHECK(!p.stream.release);
        CHECK(c.chunks().size() == 3);
        CHECK(c.length() == 6);
        CHECK(c.type().name() == "n");
        for (auto const& chunk : c.chunks()) CHECK(chunk.view().buffers()[1].data == numbers);
        CHECK(p.owner.use_count() == 4);
    }
    CHECK(p.is_released_once());
    producer<Stream> empty{0, 0};
    CHECK(ferry::from_arrow(&empty.stream).type().format() == "i");
    CHECK(empty.is_released_once());
}

TEST_CASE_TEMPLATE("a stream that fails is released once, with all chunks, and its code and text are the error's",
                   Stream, ArrowArrayStream, ArrowDeviceArrayStream) {
    for (auto const& [result, code, named] : {std::tuple{EINVAL, errc::argument, "EINVAL"},
                                              {ENOMEM, errc::out_of_memory, "ENOMEM"},
                                              {EIO, errc::driver, "EIO"},
                                              {ENOSYS, errc::driver, "ENOSYS"},
                                              {77, errc::driver, "77"}})
        for (int chunks = 0; chunks < 3; ++chunks) {
            producer<Stream> p{chunks, result};
            fails(code, [&] { static_cast<void>(ferry::from_arrow(&p.stream)); }, {named, ": the disk is on fire"});
            CHECK(p.is_released_once());
            producer<Stream> silent{chunks, result};
            silent.text = nullptr;
            fails(code, [&] { static_cast<void>(ferry::from_arrow(&silent.stream)); }, {named});
            CHECK(silent.is_released_once());
        }
}

TEST_CASE_TEMPLATE("a stream whose schema is not read stays the caller's", Stream, ArrowArrayStream,
                   ArrowDeviceArrayStream) {
    producer<Stream> p{2, EIO};
    p.has_no_schema = true;
    fails(errc::driver, [&] { static_cast<void>(ferry::from_arrow(&p.stream)); }, {"EIO", "fire"});
    CHECK(!!p.stream.release);
    CHECK(p.released == 0);
    fails(errc::argument, [] { static_cast<void>(ferry::from_arrow(static_cast<Stream*>(nullptr))); }, {"null"});
    p.stream.get_last_error = nullptr;
    fails(errc::argument, [&] { static_cast<void>(ferry::from_arrow(&p.stream)); }, {"callback"});
    p.stream.release(&p.stream);
    fails(errc::argument, [&] { static_cast<void>(ferry::from_arrow(&p.stream)); }, {"released"});
    CHECK(p.is_released_once());
}

TEST_CASE_TEMPLATE("an invalid chunk is refused, and everything is released once", Stream, ArrowArrayStream,
                   ArrowDeviceArrayStream) {
    producer<Stream> p{2, 0};
    p.stream.get_next = [](Stream* s, typename producer<Stream>::array* out) {
        auto& me = producer<Stream>::of(s);
        ferry::to_arrow(make(1, me.owner), out);
        if (++me.asked == 2) ferry::detail::releasable(*out).length = -1;
        return 0;
    };
    fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow(&p.stream)); }, {"its length is -1"});
    CHECK(p.is_released_once());
}

TEST_CASE_TEMPLATE("chunks are exported without a copy, each kept until its consumer releases it", Stream,
                   ArrowArrayStream, ArrowDeviceArrayStream) {
    auto owner = std::make_shared<int>();
    Stream stream{};
    ferry::to_arrow(chunked{{make(5, owner), make(3), make(0)}, make(0)}, &stream);
    CHECK(owner.use_count() == 2);
    typename producer<Stream>::array got{};
    REQUIRE(stream.get_next(&stream, &got) == 0);
    auto& first = ferry::detail::releasable(got);
    CHECK(first.length == 5);
    CHECK(first.buffers[1] == numbers);
    first.release(&first);
    CHECK(owner.use_count() == 1);  // the stream keeps only the chunks that it has not returned
    auto const rest = ferry::from_arrow(&stream);
    CHECK(rest.chunks().size() == 2);
    CHECK(rest.length() == 3);
    ferry::to_arrow(chunked{make(5, owner)}, &stream);
    stream.release(&stream);  // not read
    CHECK(owner.use_count() == 1);
    CHECK(!stream.release);
    ferry::to_arrow(chunked{{}, make(2)}, &stream);
    CHECK(ferry::from_arrow(&stream).type().format() == "i");
    fails(errc::argument, [&] { ferry::to_arrow(chunked{make(1)}, static_cast<Stream*>(nullptr)); }, {"null"});
}

TEST_CASE("random trees return from streams as they were") {
    for (unsigned seed = 0; seed < 40; ++seed) {
        support::column_maker maker{seed};
        for (auto const* const format : {"i", "u", "vu", "b", "+l", "+s", "+w:3", "+us:0,5", "dictionary", "+r"}) {
            auto const whole = maker.make(format, 9, 2);
            chunked const c{{whole.slice(0, 4), whole.slice(4, 0), whole.slice(4, 5)}, whole};
            ArrowArrayStream host{};
            ferry::to_arrow(c, &host);
            ArrowDeviceArrayStream any{};
            ferry::to_arrow(ferry::from_arrow(&host), &any);
            auto const back = ferry::from_arrow(&any);
            REQUIRE(back.chunks().size() == 3);
            for (std::size_t i = 0; i < 3; ++i)
                CHECK(support::shown(back.chunks()[i].view()) == support::shown(c.chunks()[i].view()));
            auto const joined = ferry::concat(back);
            CHECK(support::shown(joined.view()) == support::shown(whole.view()));
        }
    }
}

TEST_CASE("the consumer's stream waits for the events of all chunks of a device, and reading does not block") {
    device const gpu{device_type::cuda, 1};
    support::sim_system sim{gpu};
    support::sim_arrow events{sim};
    auto const written = sim.make_stream(gpu.type), read = sim.make_stream(gpu.type);
    auto const memory = std::make_shared<support::sim_memory>(sim.make_memory(gpu, sizeof numbers));
    auto gate = sim.close(written);
    sim.write(written, memory->block(), numbers, sizeof numbers);
    column_buffer const buffers[] = {{}, {memory->data(), sizeof numbers}};
    auto const c = ferry::make_column({.format = "i", .length = 5, .buffers = buffers}, memory, gpu);
    ArrowDeviceArrayStream stream{};
    ferry::to_arrow(chunked{{c.slice(0, 2), c.slice(2, 3)}, c}, &stream, events, written);
    CHECK(stream.device_type == ARROW_DEVICE_CUDA);
    CHECK(events.live_events == 2);
    {
        auto const back = ferry::from_arrow(&stream, events, read);  // while the gate is closed
        CHECK(events.waits == 2);
        CHECK(back.chunks()[1].device() == gpu);
        CHECK(back.chunks()[1].offset() == 2);
        CHECK(events.live_events == 2);  // until the chunks are released
        gate.open();
        sim.finish(read);
        CHECK(sim.read<std::int32_t>(static_cast<std::int32_t const*>(back.chunks()[0].view().buffers()[1].data) + 4) ==
              5);
    }
    CHECK(events.live_events == 0);
    CHECK(sim.races() == 0);
    ferry::to_arrow(chunked{c}, &stream, events);
    fails(errc::no_backend, [&] { static_cast<void>(ferry::from_arrow(&stream)); }, {"ferry::cuda::arrow"});
    CHECK(!stream.release);
    ArrowArrayStream host{};
    fails(errc::not_accessible, [&] { ferry::to_arrow(chunked{c}, &host); });
    events.fails = true;
    fails(errc::driver, [&] { ferry::to_arrow(chunked{c}, &stream, events, written); }, {"injected"});
    events.fails = false;
    ferry::to_arrow(chunked{{c, c}, c}, &stream, events, written);
    events.fails = true;
    fails(errc::driver, [&] { static_cast<void>(ferry::from_arrow(&stream, events, read)); }, {"injected"});
    CHECK(!stream.release);
    CHECK(events.live_events == 0);
}

TEST_CASE("the chunks of a device stream are on devices of its type") {
    producer<ArrowDeviceArrayStream> p{2, 0};
    p.stream.device_type = ARROW_DEVICE_CUDA;
    fails(errc::device, [&] { static_cast<void>(ferry::from_arrow(&p.stream)); }, {"device type 1, expected 2"});
    CHECK(p.is_released_once());
    auto const owner = std::make_shared<int>();
    ArrowDeviceArrayStream stream{};
    chunked const mixed{{make(1, owner), make(1, owner, {device_type::cuda, 0})}, make(0)};
    fails(errc::device, [&] { ferry::to_arrow(mixed, &stream); }, {"chunk 1 is on cuda, and chunk 0 on cpu"});
    CHECK(!stream.release);
    CHECK(owner.use_count() == 3);
    ferry::to_arrow(chunked{{make(1, owner, {device_type::cuda, 0}), make(1, owner, {device_type::cuda, 1})}, make(0)},
                    &stream);
    stream.release(&stream);
    CHECK(owner.use_count() == 3);
}

TEST_CASE_TEMPLATE("every allocation of an export and an import may fail: nothing leaks or is released twice", Stream,
                   ArrowArrayStream, ArrowDeviceArrayStream) {
    auto const owner = std::make_shared<int>();
    std::vector<column> const two{make(5, owner), make(3, owner)};
    CHECK(support::for_each_failing_allocation([&](int) {
              Stream stream{};
              try {
                  ferry::to_arrow(chunked{two, two[0]}, &stream);
                  auto const c = ferry::from_arrow(&stream);
                  auto const joined = ferry::concat(c);
                  CHECK(joined.length() == 8);
              } catch (ferry::error const& e) {  // the stream's own ENOMEM
                  if (stream.release) stream.release(&stream);
                  if (e.code() == errc::out_of_memory) throw std::bad_alloc{};
                  throw;
              } catch (...) {
                  if (stream.release) stream.release(&stream);
                  throw;
              }
          }) > 12);
    CHECK(owner.use_count() == 3);
}
