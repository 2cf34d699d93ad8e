// Device memory between two processes: ready and done events, owners that outlive their share, stale handles.
#include <ferry/ipc.hpp>
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/send.hpp>
#include <ferry/ipc/subscriber.hpp>
#include <ferry/wire/binary.hpp>

#include <support/fails.hpp>
#include <support/importer.hpp>
#include <support/ipc.hpp>
#include <support/no_owner.hpp>
#include <support/own_shm.hpp>
#include <support/patience.hpp>
#include <support/sim_ipc.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using ferry::device_type;
using ferry::errc;
using ferry::managed_tensor;
using ferry::stream_token;
using ferry::ipc::attach;
using ferry::ipc::session;
using ferry::ipc::share;
using support::importer;
using support::line;
using support::read_on;
using support::sim_shareable;
using support::sim_system;
using support::written;

namespace {

constexpr ferry::device gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1};

/// Queues a copy of the tensor's memory, and keeps its destination.
support::sim_memory copy_later(sim_system& sim, sim_shareable& b, managed_tensor const& t, stream_token on) {
    auto copy = sim.make_memory(t.device(), 16);
    std::int64_t const shape[] = {4};
    ferry::tensor_view const to{copy.data(), ferry::dtype_of<float>, {shape}, {}, t.device()};
    b.copy(ferry::make_copy_plan(to, t.view()), copy.data(), t.device(), t.view().data(), t.device(), on);
    return copy;
}

}  // namespace

TEST_CASE("the importer's stream waits for the exporter's, and neither host blocks") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const mine = sim.make_stream(device_type::cuda);
        auto const a = attach(parent.receive(), {.stream = mine}, b);  // while the exporter's stream is held
        parent.tell('a');
        return read_on(b, a, mine) == std::vector<float>{1, 2, 3, 4} ? 0 : 1;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto gate = sim.close(stream);
    auto t = written(sim, stream, {1, 2, 3, 4});
    auto s = share(std::move(t), {.ready_on = stream}, b);  // does not block
    CHECK_FALSE(s.copied());
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    gate.open();
    CHECK(child.finish() == 0);
}

TEST_CASE("memory of a device is shared without /dev/shm, with a file descriptor for its control page") {
    support::hidden_shm const hidden;
    if (!hidden) {
        MESSAGE("SKIPPED: no mount namespace of one's own, to hide /dev/shm in");
        return;
    }
    int both[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
    ferry::ipc::unique_fd const ours{both[0]}, theirs{both[1]};
    importer child{[&](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const mine = sim.make_stream(device_type::cuda);
        session own;
        auto const d = parent.receive();  // after the file
        auto const passed = ferry::ipc::receive(theirs.get(), {.patience = support::patience});
        int const file = passed.files.at(0).get();
        support::fails(errc::permission, [&] { static_cast<void>(attach(d, {.session = &own}, b)); });
        {
            auto const a = attach(d, {.session = &own, .stream = mine, .files = {&file, 1}}, b);
            parent.tell('a');
            parent.hear('r');
            if (read_on(b, a, mine) != std::vector<float>{1, 2, 3, 4}) return 3;
        }
        parent.tell('d');
        parent.hear('e');
        return 0;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    session named, exporter{{.segments = ferry::ipc::segment_kind::anonymous}}, other;
    auto const mine = [&] { return written(sim, stream, {1, 2, 3, 4}); };
    support::fails(errc::unsupported_platform, [&] { static_cast<void>(share(mine(), {.session = &named}, b)); });
    support::fails(errc::argument, [&] { static_cast<void>(share(mine(), {.session = &exporter, .freeze = true}, b)); },
                   {"memory of cuda cannot be frozen: share a copy on the host"});
    auto s = share(mine(), {.session = &exporter, .ready_on = stream}, b);
    CHECK_FALSE(s.copied());
    REQUIRE(s.file() >= 0);
    CHECK(s.files() == std::vector<int>{s.file()});
    int const file = s.file();
    support::fails(errc::same_process,
                   [&] { static_cast<void>(attach(s.descriptor(), {.session = &other, .files = {&file, 1}}, b)); });
    ferry::ipc::send(ours.get(), {}, {&file, 1}, {.patience = support::patience});
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    CHECK(s.readers() == 1);
    s.close();
    CHECK(exporter.counts().condemned == 1);
    child.talk().tell('r');
    child.talk().hear('d');
    CHECK(exporter.collect(support::patience) == 0);
    child.talk().tell('e');
    CHECK(child.finish() == 0);
    auto const empty = share(written(sim, stream, {}), {.session = &exporter}, b);
    int const its = empty.file();
    auto const attached = attach(empty.descriptor(), {.files = {&its, 1}}, b);
    CHECK(attached.view().is_empty());
}

TEST_CASE("without a stream the importer's host waits") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const d = parent.receive();
        parent.tell('a');
        auto const a = attach(d, b);
        return sim.read<float>(static_cast<float*>(a.view().writable_data()) + 3) == 4 ? 0 : 1;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto gate = sim.close(stream);
    auto s = share(written(sim, stream, {1, 2, 3, 4}), {.ready_on = stream}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    gate.open();
    CHECK(child.finish() == 0);
}

TEST_CASE("the exporter's next write runs after the work that importers queued") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        session own;
        auto const mine = sim.make_stream(device_type::cuda);
        auto a = attach(parent.receive(), {.session = &own, .stream = mine}, b);
        parent.tell('a');
        parent.hear('h');
        auto gate = sim.close(mine);
        auto const copy = copy_later(sim, b, a, mine);  // queued, and held
        a = {};
        parent.tell('d');
        parent.hear('w');
        gate.open();
        sim.finish(mine);
        return sim.read<float>(copy.data()) == 1 ? 0 : 1;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto t = written(sim, stream, {1, 2, 3, 4});
    auto const block = sim.block_at(t.view().data());
    auto s = share(std::move(t), {.ready_on = stream}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    CHECK(s.readers() == 1);
    CHECK_FALSE(s.wait_for_readers(std::chrono::milliseconds{5}, stream));
    child.talk().tell('h');
    child.talk().hear('d');
    CHECK(s.wait_for_readers(support::patience, stream));
    float const next[] = {9, 9, 9, 9};
    sim.write(stream, block, next, sizeof next);
    auto const is_written = std::make_shared<std::atomic<bool>>(false);
    sim.queue(stream, [is_written] { *is_written = true; });
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    CHECK_FALSE(*is_written);  // held behind the importer's event
    child.talk().tell('w');
    CHECK(child.finish() == 0);
    sim.finish(stream);
    CHECK(sim.read<float>(block->data()) == 9);
}

namespace {

using support::sim_fault;

/// Queues a write to the memory of a share on a stream, and checks whether it runs within some time.
bool is_overwritten_within(std::chrono::milliseconds limit, sim_system& sim, stream_token on,
                           std::shared_ptr<support::sim_block> const& block) {
    float const next[] = {9, 9, 9, 9};
    sim.write(on, block, next, sizeof next);
    auto const is_written = std::make_shared<std::atomic<bool>>(false);
    sim.queue(on, [is_written] { *is_written = true; });
    for (auto const end = std::chrono::steady_clock::now() + limit;
         !*is_written && std::chrono::steady_clock::now() < end;)
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return *is_written;
}

/// Time to observe an event that must not occur, or that occurs because of a simulated fault.
std::chrono::milliseconds patience_with(sim_fault fault) {
    return std::chrono::milliseconds{fault == sim_fault::none ? 20 : 5000};
}

/// An importer queues a copy on a stream that is held, drops the tensor, and then one that it used on an idle stream.
/// Whether the exporter's next write runs after the copy.
bool both_streams_are_waited_for(sim_fault fault) {
    importer child{[fault](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim, fault};
        session own;
        auto const busy = sim.make_stream(device_type::cuda), idle = sim.make_stream(device_type::cuda);
        auto const d = parent.receive();
        auto first = attach(d, {.session = &own, .stream = busy}, b),
             second = attach(d, {.session = &own, .stream = idle}, b);
        if (b.opens_made != 1) return 2;
        auto gate = sim.close(busy);
        auto const copy = copy_later(sim, b, first, busy);
        first = {};
        second = {};
        parent.tell('d');
        parent.hear('w');
        gate.open();
        sim.finish(busy);
        return sim.read<float>(copy.data()) == 1 ? 0 : 1;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto t = written(sim, stream, {1, 2, 3, 4});
    auto const block = sim.block_at(t.view().data());
    auto s = share(std::move(t), {.ready_on = stream}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('d');
    REQUIRE(s.wait_for_readers(support::patience, stream));
    bool const is_early = is_overwritten_within(patience_with(fault), sim, stream, block);
    child.talk().tell('w');
    int const status = child.finish();
    CHECK(status == int{is_early});
    return !is_early;
}

/// An importer drops the last tensor of a closed share while a copy that it queued is held. Whether the exporter keeps
/// the memory until the copy has run.
bool memory_stays_while_it_is_used(sim_fault fault) {
    importer child{[fault](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim, fault};
        auto const mine = sim.make_stream(device_type::cuda);
        auto a = attach(parent.receive(), {.stream = mine}, b);
        parent.tell('a');
        parent.hear('c');
        auto gate = sim.close(mine);
        auto const copy = copy_later(sim, b, a, mine);
        std::thread drops{[&] { a = {}; }};
        parent.tell('d');
        parent.hear('o');
        gate.open();
        drops.join();
        parent.tell('e');
        parent.hear('q');
        return 0;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    session own;
    auto const stream = sim.make_stream(device_type::cuda);
    auto s = share(written(sim, stream, {1, 2, 3, 4}), {.session = &own, .ready_on = stream}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    s = {};
    child.talk().tell('c');
    child.talk().hear('d');
    bool const stays = own.collect(patience_with(fault)) == 1;
    child.talk().tell('o');
    child.talk().hear('e');
    CHECK(own.collect(support::patience) == 0);
    child.talk().tell('q');
    CHECK(child.finish() == 0);
    return stays;
}

}  // namespace

TEST_CASE("the readers of a frame wait for the stream on which it is published, and no host waits") {
    support::own_directory const here;
    importer child{[&](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const mine = sim.make_stream(device_type::cuda);
        ferry::ipc::subscriber left{"camera", here};
        bool is_right = true;
        for (float n = 1; n <= 6; ++n) {
            auto const f = left.next(support::patience, {.stream = mine}, b);  // while the publisher's stream is held
            parent.tell('a');
            is_right &= f && read_on(b, f->value, mine) == std::vector<float>(4, n);
            parent.tell('r');
        }
        parent.hear('e');
        return is_right ? 0 : 1;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const slot = [&](stream_token ready) {
        return share(written(sim, stream, {0, 0, 0, 0}), {.ready_on = ready}, b);
    };
    // The descriptor of the first has an event, and that of the other gets one with the fourth frame.
    ferry::ipc::publisher camera{"camera", {slot(stream), slot({})}, here};
    for (float n = 1; n <= 6; ++n) {
        auto const k = camera.begin(support::patience, stream);
        REQUIRE(k);
        auto gate = sim.close(stream);
        std::vector<float> const values(4, n);
        sim.write(stream, sim.block_at(camera[*k].view().data()), values.data(), 16);
        if (n <= 2) {
            gate.open();
            sim.wait(stream);
        }
        CHECK(camera.publish(*k, n <= 2 ? stream_token{} : stream) == static_cast<std::uint64_t>(n));
        child.talk().hear('a');
        gate.open();
        child.talk().hear('r');
    }
    child.talk().tell('e');
    CHECK(child.finish() == 0);
}

TEST_CASE("a stream that writes a frame again waits for the stream that wrote it before") {
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const first = sim.make_stream(device_type::cuda), second = sim.make_stream(device_type::cuda);
    auto s = share(written(sim, first, {1, 2, 3, 4}), {}, b);
    auto const before = s.descriptor();
    CHECK_FALSE(s.record_ready({}));
    CHECK(s.descriptor() == before);
    auto gate = sim.close(first);
    CHECK(s.record_ready(first));
    CHECK_FALSE(s.descriptor() == before);
    CHECK_FALSE(s.record_ready(first));
    CHECK(s.wait_for_readers({}, second));
    std::atomic<bool> has_run = false;
    sim.queue(second, [&] { has_run = true; });
    CHECK_FALSE(has_run);
    gate.open();
    sim.wait(second);
    CHECK(has_run);
    support::fails(errc::stream, [&] { s.record_ready(sim.make_stream(device_type::rocm)); });
    auto host = support::slot();
    CHECK_FALSE(host.record_ready({}));
    support::fails(errc::stream, [&] { host.record_ready(first); }, {"host memory", "pass none"});
}

TEST_CASE("the event of a mapping covers all streams that used it; the test detects an event of the last stream only") {
    CHECK(both_streams_are_waited_for(sim_fault::none));
    CHECK_FALSE(both_streams_are_waited_for(sim_fault::marks_last_stream_alone));
}

TEST_CASE("memory is in use until the work queued on it has run; the test detects a close before that") {
    CHECK(memory_stays_while_it_is_used(sim_fault::none));
    CHECK_FALSE(memory_stays_while_it_is_used(sim_fault::closes_while_used));
}

TEST_CASE("queued work without an event, on a captured stream, keeps the memory until its process ends") {
    enum class session_is { kept, dropped, none };
    for (auto const which : {session_is::kept, session_is::dropped, session_is::none}) {
        CAPTURE(static_cast<int>(which));
        importer child{[which](line const& parent) {
            sim_system sim{gpu};
            sim_shareable b{sim, sim_fault::is_captured};
            auto own = std::make_unique<session>();
            auto a = attach(parent.receive(),
                            {.session = which == session_is::none ? nullptr : own.get(),
                             .stream = sim.make_stream(device_type::cuda)},
                            b);
            a = {};
            if (which == session_is::dropped) own.reset();
            parent.tell('d');
            parent.hear('e');
            return 0;
        }};
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const stream = sim.make_stream(device_type::cuda);
        auto s = share(written(sim, stream, {1, 2, 3, 4}), {.ready_on = stream}, b);
        child.talk().send(s.descriptor());
        child.talk().hear('d');
        CHECK(s.readers() == 1);
        CHECK_FALSE(s.wait_for_readers(std::chrono::milliseconds{5}, stream));
        child.talk().tell('e');
        CHECK(child.finish() == 0);
        CHECK(s.wait_for_readers(support::patience, stream));
    }
}

TEST_CASE("on both sides, default streams are those of the device of the memory") {
    auto const default_stream = stream_token::cuda_legacy_default(), there = default_stream.on_device(other_gpu);
    importer child{[=](line const& parent) {
        sim_system sim{gpu, other_gpu};
        sim_shareable b{sim};
        session own;
        auto a = attach(parent.receive(), {.session = &own, .stream = default_stream}, b);
        auto gate = sim.close(there);
        auto const copy = copy_later(sim, b, a, there);
        a = {};
        parent.tell('d');
        parent.hear('w');
        gate.open();
        sim.finish(there);
        return sim.read<float>(copy.data()) == 1 ? 0 : 1;
    }};
    sim_system sim{gpu, other_gpu};
    sim_shareable b{sim};
    auto t = written(sim, there, {1, 2, 3, 4}, other_gpu);
    auto const block = sim.block_at(t.view().data());
    auto s = share(std::move(t), {.ready_on = default_stream}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('d');
    CHECK(s.wait_for_readers(support::patience, default_stream));
    CHECK_FALSE(is_overwritten_within(std::chrono::milliseconds{20}, sim, there, block));
    child.talk().tell('w');
    CHECK(child.finish() == 0);
    sim.finish(there);
}

TEST_CASE("an alias waits for the exporter's stream as well") {
    sim_system sim{gpu};
    sim_shareable b{sim};
    session own;
    auto const stream = sim.make_stream(device_type::cuda), mine = sim.make_stream(device_type::cuda);
    auto gate = sim.close(stream);
    auto s = share(written(sim, stream, {1, 2, 3, 4}), {.session = &own, .ready_on = stream}, b);
    auto const a = attach(s.descriptor(), {.session = &own, .stream = mine}, b);
    auto const copy = copy_later(sim, b, a, mine);
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    gate.open();
    sim.finish(mine);
    CHECK(sim.read<float>(copy.data()) == 1);
    auto const unsaid = attach(s.descriptor(), {.session = &own, .stream = stream_token::no_sync()}, b);
    CHECK(unsaid.view().data() == a.view().data());
}

TEST_CASE("a closed share keeps its memory until no importer maps it") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        session own;
        auto const d = parent.receive();
        auto a = attach(d, {.session = &own}, b);
        parent.tell('a');
        parent.hear('c');
        bool const stays = sim.read<float>(a.view().data()) == 1;
        bool refused = false;
        try {
            static_cast<void>(attach(d, {.session = &own}, b));
        } catch (ferry::error const& e) {
            refused = e.code() == errc::exporter_gone;
        }
        a = {};
        parent.tell('d');
        parent.hear('e');
        return stays && refused ? 0 : 1;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    session own;
    auto const stream = sim.make_stream(device_type::cuda);
    auto s = share(written(sim, stream, {1, 2, 3, 4}), {.session = &own, .ready_on = stream}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    s = {};  // returns while the importer holds it
    CHECK(own.counts().condemned == 1);
    CHECK(own.collect() == 1);
    CHECK(sim.live_bytes() == 4096);
    child.talk().tell('c');
    child.talk().hear('d');
    CHECK(own.collect(support::patience) == 0);
    CHECK(sim.live_bytes() == 0);
    child.talk().tell('e');
    CHECK(child.finish() == 0);
}

TEST_CASE("memory that a killed importer mapped is freed, and that of a stopped one is not") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const a = attach(parent.receive(), b);
        parent.tell('a');
        raise(SIGSTOP);
        return 0;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    session own;
    auto s = share(written(sim, sim.make_stream(device_type::cuda), {1, 2, 3, 4}), {.session = &own}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    s.close();
    s = {};
    CHECK(own.collect(std::chrono::milliseconds{50}) == 1);
    CHECK(sim.live_bytes() == 4096);
    child.kill();
    CHECK(own.collect(support::patience) == 0);
    CHECK(sim.live_bytes() == 0);
}

TEST_CASE("memory that importers still read when the session is destroyed is never freed") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const a = attach(parent.receive(), b);
        parent.tell('a');
        parent.hear('g');
        parent.tell(sim.read<float>(a.view().data()) == 1 ? 'y' : 'n');
        return 0;
    }};
    CHECK(support::in_child([&] {  // in a child process: the memory that is never freed is a leak
              sim_system sim{gpu};
              sim_shareable b{sim};
              {
                  auto const stream = sim.make_stream(device_type::cuda);
                  auto s = share(written(sim, stream, {1, 2, 3, 4}), {.ready_on = stream}, b);
                  child.talk().send(s.descriptor());
                  child.talk().hear('a');
              }
              bool const stays = sim.live_bytes() == 4096;
              child.talk().tell('g');
              child.talk().hear('y');
              return stays ? 0 : 1;
          }) == 0);
    CHECK(child.finish() == 0);
}

TEST_CASE("a range that exceeds its allocation is not shared") {
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const memory = sim.make_memory(gpu, 4096);
    std::int64_t const shape[] = {4096};
    auto t = ferry::make_managed(support::no_owner{},
                                 ferry::tensor_view{memory.data(), ferry::dtype_of<float>, {shape}, {}, gpu});
    support::fails(errc::out_of_range,
                   [&] { static_cast<void>(share(std::move(t), {.ready_on = ferry::already_ready}, b)); },
                   {"exceeds its allocation", "correct the shape"});
}

TEST_CASE("a handle of freed memory is stale, and a range beyond its allocation is refused") {
    auto const code_of = [](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        try {
            static_cast<void>(attach(parent.receive(), b));
        } catch (ferry::error const& e) {
            return static_cast<int>(e.code());
        }
        return 0;
    };
    importer first{code_of}, second{code_of};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto s = share(written(sim, stream, {1, 2, 3, 4}), b);
    auto d = s.descriptor();
    auto handle = support::sim_handle::from(d.memories[0].handle.data());
    handle.inode ^= 1;  // another allocation has this number now
    d.memories[0].handle = handle.bytes_of();
    first.talk().send(d);
    CHECK(first.finish() == static_cast<int>(errc::stale_handle));
    d = s.descriptor();
    d.memories[0].allocation = 8192;
    d.memories[0].offset = 4096;
    second.talk().send(d);
    CHECK(second.finish() == static_cast<int>(errc::out_of_range));
    CHECK(s.readers() == 0);
    CHECK(s.wait_for_readers({}));
}

TEST_CASE("memory without a handle is copied to memory with one, or refused with the reason") {
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    session own;
    auto const make = [&] {
        auto t = written(sim, stream, {1, 2, 3, 4});
        b.pooled = t.view().data();
        return t;
    };
    support::fails(errc::not_exportable,
                   [&] {
                       static_cast<void>(
                           share(make(), {.session = &own, .copy = ferry::copy_policy::never, .ready_on = stream}, b));
                   },
                   {"stream-ordered pool"});
    auto s = share(make(), {.session = &own, .ready_on = stream}, b);
    CHECK(s.copied());
    CHECK(s.view().data() != b.pooled);
    CHECK(sim.races() == 0);
    CHECK(sim.live_bytes() == 16);
    CHECK(sim.read<float>(static_cast<float*>(s.view().writable_data()) + 3) == 4);
    auto always = share(written(sim, stream, {5, 6, 7, 8}),
                        {.session = &own, .copy = ferry::copy_policy::always, .ready_on = stream}, b);
    CHECK(always.copied());
    auto const a = attach(s.descriptor(), {.session = &own}, b);
    CHECK(a.view().data() == s.view().data());  // an alias, because a handle cannot be opened in its own process
    support::fails(errc::same_process, [&] { static_cast<void>(attach(s.descriptor(), b)); });
    auto const descriptor = s.descriptor();
    s.close();
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(descriptor, b)); });
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(descriptor, {.session = &own}, b)); });
}

TEST_CASE("attached memory of a device is shared again by its exporter's handle, and lives until the last importer") {
    auto const relay = [](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const mine = sim.make_stream(device_type::cuda);
        session own;
        auto a = attach(parent.receive(), {.session = &own, .stream = mine}, b);
        auto gate = sim.close(mine);
        std::vector<float> const mine_now{5, 6};
        sim.write(mine, sim.block_at(a.view().data()), mine_now.data(), 8);  // late
        auto const begin = a.view().data();
        auto s = share(support::restrided(std::move(a), 0, {3}, {1}),
                       {.session = &own, .copy = ferry::copy_policy::never, .ready_on = mine}, b);
        if (s.copied() || s.view().data() != begin) return 1;
        auto const alias = attach(s.descriptor(), {.session = &own, .stream = stream_token::no_sync()}, b);
        if (alias.view().data() != begin) return 2;
        parent.send(s.descriptor());
        parent.hear('a');  // it is attached by the other importer and by its exporter
        if (s.readers() == 0) return 3;
        gate.open();
        parent.hear('c');
        s = {};
        if (own.counts().condemned != 0) return 4;  // its exporter keeps the memory
        parent.tell('c');
        parent.hear('e');
        return 0;
    };
    importer first{relay}, second{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const mine = sim.make_stream(device_type::cuda);
        session own;
        auto a = attach(parent.receive(), {.session = &own, .stream = mine}, b);
        parent.tell('a');  // the data is not ready yet
        if (read_on(b, a, mine) != std::vector<float>{5, 6, 3}) return 1;
        parent.tell('r');
        parent.hear('d');
        if (read_on(b, a, mine) != std::vector<float>{5, 6, 3}) return 2;
        a = {};
        own.trim();
        parent.tell('d');
        parent.hear('e');
        return 0;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    session own;
    auto const stream = sim.make_stream(device_type::cuda), other = sim.make_stream(device_type::cuda);
    auto s = share(written(sim, stream, {1, 2, 3, 4}), {.session = &own, .ready_on = stream}, b);
    auto* const begin = static_cast<float*>(s.view().writable_data());
    first.talk().send(s.descriptor());
    auto const d = first.talk().receive();
    CHECK(d.memories[0].handle == s.descriptor().memories[0].handle);
    CHECK(d.memories[0].name != s.descriptor().memories[0].name);
    second.talk().send(d);
    second.talk().hear('a');
    {
        auto const back = attach(d, {.session = &own, .stream = other}, b);  // an alias
        CHECK(back.view().data() == begin);
        CHECK(back.view().size() == 3);
        first.talk().tell('a');
        CHECK(read_on(b, back, other) == std::vector<float>{5, 6, 3});
    }
    second.talk().hear('r');
    CHECK(s.readers() >= 2);  // the relay and its importer
    s = {};
    CHECK(own.collect() == 1);
    first.talk().tell('c');
    first.talk().hear('c');
    first.talk().tell('e');
    CHECK(first.finish() == 0);
    CHECK(own.collect() == 1);  // the relay has ended; its importer has the memory
    CHECK(sim.live_bytes() == 4096);
    second.talk().tell('d');
    second.talk().hear('d');
    CHECK(own.collect(support::patience) == 0);
    CHECK(sim.live_bytes() == 0);
    second.talk().tell('e');
    CHECK(second.finish() == 0);
}

TEST_CASE("attached memory of a device whose share is closed is copied with the reason, or refused with it") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        session own;
        auto const d = parent.receive();
        auto const again = [&] { return attach(d, {.session = &own}, b); };
        auto const one = again();
        auto const lent = [&] {
            return support::restrided(ferry::make_managed(support::no_owner{}, one.view()), 0, {4}, {1});
        };
        b.passes_handles_on = false;
        auto const not_passed = share(again(), {.session = &own}, b);
        if (!not_passed.copied() || std::strstr(not_passed.copied().reason, "does not pass on") == nullptr) return 1;
        b.passes_handles_on = true;
        parent.tell('a');
        parent.hear('c');
        auto const copy = share(lent(), {.session = &own}, b);
        if (!copy.copied() || std::strstr(copy.copied().reason, "has closed its share") == nullptr) return 2;
        if (sim.read<float>(copy.view().data()) != 1) return 3;
        try {
            static_cast<void>(share(lent(), {.session = &own, .copy = ferry::copy_policy::never}, b));
        } catch (ferry::error const& e) {
            bool const is_clear = std::strstr(e.what(), "has closed its share") != nullptr;
            return e.code() == errc::not_exportable && is_clear ? 0 : 4;
        }
        return 5;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    session own;
    auto s = share(written(sim, stream, {1, 2, 3, 4}), {.session = &own, .ready_on = stream}, b);
    child.talk().send(s.descriptor());
    child.talk().hear('a');
    s = {};
    child.talk().tell('c');
    CHECK(child.finish() == 0);
    CHECK(own.collect(support::patience) == 0);
}

TEST_CASE("a mapping is found by its handle as well: a forged one is not taken for the memory of the exporter") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        session own;
        auto const honest = parent.receive();
        auto forged = honest;
        auto const others = parent.receive();
        forged.memories[0].handle = others.memories[0].handle;
        forged.memories[0].ready = others.memories[0].ready;
        auto const other = attach(forged, {.session = &own}, b);
        if (sim.read<float>(other.view().data()) != 9) return 1;
        auto const a = attach(honest, {.session = &own}, b);
        return sim.read<float>(a.view().data()) == 1 ? 0 : 2;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const s = share(written(sim, stream, {1, 2, 3, 4}), {.ready_on = stream}, b);
    auto const other = share(written(sim, stream, {9, 9, 9, 9}), {.ready_on = stream}, b);
    child.talk().send(s.descriptor());
    child.talk().send(other.descriptor());
    CHECK(child.finish() == 0);
}

TEST_CASE("slices are shared as offsets into their allocation, which each device opens once") {
    importer child{[](line const& parent) {
        sim_system sim{gpu, other_gpu};
        sim_shareable b{sim};
        session own;
        auto const d = parent.receive();
        auto const a = attach(d, {.session = &own}, b), again = attach(d, {.session = &own}, b);
        if (b.opens_made != 1 || a.view().data() != again.view().data() || a.device() != gpu) return 1;
        auto const there = attach(d, {.session = &own, .device = other_gpu}, b);
        if (b.opens_made != 2 || there.device() != other_gpu) return 2;
        if (a.view().extent(0) != 2 || a.view().stride(0) != -2) return 3;
        auto const* const first = static_cast<float*>(a.view().writable_data());
        return sim.read<float>(first) == 4 && sim.read<float>(first - 2) == 2 ? 0 : 4;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto s = share(support::restrided(written(sim, stream, {1, 2, 3, 4}), 3, {2}, {-2}), {.ready_on = stream}, b);
    CHECK(s.descriptor().memories[0].offset == 4);
    CHECK(s.descriptor().memories[0].length == 12);
    child.talk().send(s.descriptor());
    CHECK(child.finish() == 0);
}

TEST_CASE("an unused mapping is removed when it prevents another one") {
    importer child{[](line const& parent) {
        sim_system sim{gpu, other_gpu};
        sim_shareable b{sim};
        session own;
        auto const d = parent.receive();
        int tries = 0;
        bool is_in_the_way = true;
        b.before_open = [&] {
            ++tries;
            if (is_in_the_way || own.counts().unused != 0)
                throw ferry::error{errc::already_mapped, "sim", ferry::message{"it is open on another device"}};
        };
        auto const is_refused = [&] {
            try {
                static_cast<void>(attach(d, {.session = &own, .device = other_gpu}, b));
            } catch (ferry::error const& e) {
                return e.code() == errc::already_mapped;
            }
            return false;
        };
        if (!is_refused() || tries != 1) return 1;  // there is no unused mapping to remove
        is_in_the_way = false;
        static_cast<void>(attach(d, {.session = &own}, b));
        if (own.counts().unused != 1) return 2;
        auto const there = attach(d, {.session = &own, .device = other_gpu}, b);
        if (tries != 4 || there.device() != other_gpu || own.counts().mappings != 1) return 3;
        is_in_the_way = true;
        static_cast<void>(attach(d, {.session = &own, .device = other_gpu}, b));  // already mapped
        return tries == 4 ? 0 : 4;
    }};
    sim_system sim{gpu};
    sim_shareable b{sim};
    auto s = share(written(sim, sim.make_stream(device_type::cuda), {1, 2}), b);
    child.talk().send(s.descriptor());
    CHECK(child.finish() == 0);
    CHECK(s.readers() == 0);
}

TEST_CASE("importers notice that an exporter was killed") {
    importer child{[](line const& parent) {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto const stream = sim.make_stream(device_type::cuda);
        auto s = share(written(sim, stream, {1, 2, 3, 4}), {.ready_on = stream}, b);
        parent.send(s.descriptor());
        parent.hear('x');  // never
        return 0;
    }};
    auto const d = child.talk().receive();
    session own;
    {
        sim_system sim{gpu};
        sim_shareable b{sim};
        auto a = attach(d, {.session = &own}, b);
        child.kill();
        CHECK(child.finish() == 128 + SIGKILL);
        support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(d, {.session = &own}, b)); });
        support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(d, b)); });
        CHECK(sim.read<float>(a.view().data()) == 1);
        a = {};
        own.trim();  // before the device of its mapping is destroyed
    }
    static_cast<void>(share(support::tensor({3})));  // removes the segments of ended processes
    CHECK(support::segments(static_cast<pid_t>(d.from.pid)).empty());
}
