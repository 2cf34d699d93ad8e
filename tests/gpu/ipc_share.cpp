// GPU tensors shared with another process, by one call each.
#include <ferry/column.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/share_column.hpp>
#include <gpu/calls.hpp>
#include <gpu/importer.hpp>
#include <gpu/plain_array.hpp>
#include <gpu/world.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::errc;
using enum support::order_of_work;
namespace cuda = ferry::cuda;
namespace ipc = ferry::ipc;

}  // namespace

TEST_CASE("ipc share: slices and views with strides of either sign arrive without a copy, on every GPU") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    for (auto const device : devices_to_open_on()) {
        CAPTURE(device);
        importer other;
        for (auto const& l : arrangements()) {
            for (bool const read_only : {false, true}) {
                auto a = make_plain(l.shape, l.strides, l.offset);
                a.read_only = read_only;
                count_up(a);
                auto const shared = ipc::share(a, {.session = &session}, back_end);
                CHECK(!shared.copied());
                auto const attached = other.attach(text(shared), device);
                REQUIRE_MESSAGE(attached.code == errc::ok, text_of(attached));
                CHECK(numbers(attached) == std::vector<int>{read_only});
                CHECK(numbers(other.tell(elements)) == l.expected);
            }
        }
    }
}

TEST_CASE("ipc share: the driver is asked for the facts of each allocation once") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    cuda::shareable back_end;
    ipc::session session;
    auto const asked = [&](int allocations) {
        std::vector<ferry::column> children;
        for (int i = 0; i < allocations; ++i) {
            auto const one = std::make_shared<ferry::buffer<cuda::device_space>>(4096);
            ferry::column_buffer const buffers[] = {{}, {one->data(), 4000}};
            children.push_back(ferry::make_column({.format = "f", .length = 1000, .buffers = buffers}, one, gpu));
        }
        auto const table = ferry::make_struct(children, "t");
        calls::reset();
        auto const shared =
            ipc::share(table, {.session = &session, .copy = copy_policy::never, .ready_on = {}}, back_end);
        CHECK(shared.descriptor().memories.size() == static_cast<std::size_t>(allocations));
        return std::pair{calls::count(calls::of::advice), calls::count(calls::of::query)};
    };
    static_cast<void>(asked(1));
    auto const few = asked(10), many = asked(30);
    CHECK(many.first - few.first == 20 * 6);    // 4 attributes; the capture mode for the handle
    CHECK(many.second - few.second == 20 * 2);  // the range, and the UUID of the device
}

TEST_CASE("ipc share: the importer's stream waits for the exporter's, and neither host does") {
    load_kernels();
    cuda::shareable back_end;
    auto a = make_plain({65536});
    test_stream s;
    importer other;
    gate closed{s.get()};
    must(cudaMemsetAsync(a.memory.get(), 77, 65536, s.get()));
    a.ready = s.token();
    auto const shared = ipc::share(a, back_end);
    CHECK_GATED(!closed.is_open());
    CHECK(other.attach(text(shared)).code == errc::ok);
    CHECK(other.tell(copy_later).code == errc::ok);
    CHECK_GATED(!closed.is_open());
    closed.open();
    CHECK(numbers(other.tell(finish)) == std::vector<int>(65536, 77));
    s.finish();
    CHECK_GATED(!closed.was_forced());
    CHECK(other.tell(drop).code == errc::ok);
    static_cast<void>(other.usage());  // which unmaps it
}

TEST_CASE(
    "ipc share: a closed share stays valid for importers, cannot be attached again, and is freed after the last") {
    cuda::shareable back_end;
    ipc::session session;
    importer other, late;
    auto a = make_plain({4});
    count_up(a);
    std::weak_ptr<void> const alive = a.memory;
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    auto const described = text(shared);
    REQUIRE(other.attach(described).code == errc::ok);
    CHECK(shared.readers() == 1);
    shared.close();  // returns while the importer holds it
    shared = {};
    CHECK(late.attach(described).code == errc::exporter_gone);
    CHECK(session.counts().condemned == 1);
    CHECK(session.collect() == 1);
    CHECK(!alive.expired());
    CHECK(numbers(other.tell(elements)) == std::vector<int>{0, 1, 2, 3});  // reading drops it
    CHECK(session.collect(support::patience) == 0);
    CHECK(alive.expired());
}

TEST_CASE("ipc share: attached memory is shared again by its exporter's handle, and is freed after the last importer") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    importer relay, other;
    auto a = make_plain({65536});
    std::weak_ptr<void> const alive = a.memory;
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    REQUIRE(relay.attach(text(shared)).code == errc::ok);
    REQUIRE(relay.tell(hold).code == errc::ok);
    REQUIRE(relay.tell(fill_later, std::vector{std::byte{5}}).code == errc::ok);
    auto const passed = relay.tell(share_attached);
    REQUIRE_MESSAGE(passed.code == errc::ok, text_of(passed));
    auto const described = ferry::wire::from_bytes(passed.bytes);
    CHECK(described.memories[0].handle == shared.descriptor().memories[0].handle);
    test_stream mine;
    auto alias = ipc::attach(described, {.session = &session, .stream = mine.token()}, back_end);
    CHECK(alias.view().data() == shared.view().data());
    alias = {};
    REQUIRE(other.attach(passed.bytes).code == errc::ok);
    REQUIRE(other.tell(copy_later).code == errc::ok);
    CHECK_GATED(!mine.is_idle());
    REQUIRE(relay.tell(release).code == errc::ok);
    CHECK(numbers(other.tell(finish)) == std::vector<int>(65536, 5));
    mine.finish();
    shared = {};
    CHECK(relay.tell(close_share).code == errc::ok);
    static_cast<void>(relay.usage());  // which unmaps it
    CHECK(session.collect() == 1);
    CHECK(!alive.expired());
    CHECK(numbers(other.tell(elements)) == std::vector<int>(65536, 5));  // reading drops it
    CHECK(session.collect(support::patience) == 0);
    CHECK(alive.expired());
}

TEST_CASE("ipc share: memory closed and released is freed after its queued work has completed") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    importer other;
    auto a = make_plain({65536});
    count_up(a);
    std::weak_ptr<void> const alive = a.memory;
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    REQUIRE(other.attach(text(shared)).code == errc::ok);
    REQUIRE(other.tell(hold).code == errc::ok);
    REQUIRE(other.tell(copy_later).code == errc::ok);
    shared = {};
    REQUIRE(other.tell(drop_later).code == errc::ok);
    CHECK_GATED(session.collect(std::chrono::milliseconds{50}) == 1);
    CHECK_GATED(!alive.expired());
    CHECK_GATED(numbers(other.tell(is_gone)) == std::vector<int>{0});
    REQUIRE(other.tell(release).code == errc::ok);
    CHECK(session.collect(support::patience) == 0);
    CHECK(alive.expired());
    auto const got = numbers(other.tell(finish));
    REQUIRE(got.size() == 65536);
    for (std::size_t i = 0; i < got.size(); i += 251) CHECK(got[i] == static_cast<int>(i & 255));
}

TEST_CASE("ipc share: an alias in the same process waits for the stream that writes, and the host does not") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    auto a = make_plain({65536});
    test_stream writes, reads;
    std::byte* host = nullptr;
    must(cudaMallocHost(reinterpret_cast<void**>(&host), 65536));
    {
        gate closed{writes.get()};
        must(cudaMemsetAsync(a.memory.get(), 77, 65536, writes.get()));
        a.ready = writes.token();
        auto const shared = ipc::share(a, {.session = &session}, back_end);
        auto const alias = ipc::attach(shared.descriptor(), {.session = &session, .stream = reads.token()}, back_end);
        must(cudaMemcpyAsync(host, alias.view().data(), 65536, cudaMemcpyDeviceToHost, reads.get()));
        ::usleep(20'000);
        CHECK_GATED(!reads.is_idle());
        CHECK_GATED(!closed.is_open());
        closed.open();
        reads.finish();
        CHECK_GATED(!closed.was_forced());
    }
    CHECK(host[0] == std::byte{77});
    CHECK(host[65535] == std::byte{77});
    must(cudaFreeHost(host));
}

TEST_CASE("ipc share: everything of a killed importer is released") {
    cuda::shareable back_end;
    ipc::session session;
    auto a = make_plain({4});
    std::weak_ptr<void> const alive = a.memory;
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    {
        importer other;
        REQUIRE(other.attach(text(shared)).code == errc::ok);
        shared.close();
        shared = {};
        CHECK(session.collect() == 1);
        other.kill();
    }
    CHECK(session.collect(support::patience) == 0);
    CHECK(alive.expired());
}

namespace {

/// Frames in one buffer, each compared completely: the importer's copy is late, and the exporter writes the next one as
/// early as possible.
void send_frames(int frames, std::int32_t device) {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    constexpr std::size_t length = std::size_t{1} << 18;
    auto a = make_plain({static_cast<std::int64_t>(length)});
    test_stream s;
    a.ready = s.token();
    auto const kept = ipc::share(a, {.session = &session}, back_end);
    importer other;
    // Stays open for all frames: the driver takes ten milliseconds to open memory on another GPU.
    auto const opened = other.open(text(kept), device);
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    int wrong = 0;
    for (int i = 0; i < frames; ++i) {
        must(cudaMemsetAsync(a.memory.get(), i % 251, length, s.get()));
        auto shared = ipc::share(a, {.session = &session}, back_end);
        REQUIRE(other.attach(text(shared), device).code == errc::ok);
        if (i % 100 == 0) REQUIRE(other.tell(hold).code == errc::ok);  // its copy is late
        REQUIRE(other.tell(copy_later).code == errc::ok);
        REQUIRE(other.tell(drop).code == errc::ok);  // its copy may still run
        REQUIRE(shared.wait_for_readers(support::patience, s.token()));
        must(cudaMemsetAsync(a.memory.get(), 0xFE, length, s.get()));  // as early as allowed
        if (i % 100 == 0) REQUIRE(other.tell(release).code == errc::ok);
        auto const got = other.tell(finish).bytes;
        REQUIRE(got.size() == length);
        wrong += !std::ranges::all_of(got, [i](std::byte b) { return b == std::byte(i % 251); });
    }
    s.finish();
    CHECK(wrong == 0);
    CHECK(other.tell(let_go).code == errc::ok);
    static_cast<void>(other.usage());  // which unmaps the rest
    CHECK(session.collect(support::patience) == 0);
}

bool is_short() { return std::getenv("FERRY_SHORT") != nullptr; }

}  // namespace

TEST_CASE("ipc share: the importer's pending work completes before the exporter writes again") {
    send_frames(is_short() ? 300 : 10'000, -1);
}

TEST_CASE("ipc share: the importer's pending work on another GPU completes before the exporter writes again") {
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    send_frames(is_short() ? 101 : 10'000, 1);
}

TEST_CASE("ipc share: sharing in place and by copy during a capture does not invalidate it") {
    cuda::shareable back_end;
    auto a = make_plain({4096});
    test_stream const s, captured;
    a.ready = s.token();
    for (auto const copy : {copy_policy::if_needed, copy_policy::always})  // before: what is made at first is there
        CHECK(ipc::share(a, {.copy = copy}, back_end).is_open());
    must(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    for (auto const copy : {copy_policy::if_needed, copy_policy::always})
        CHECK_NOTHROW(static_cast<void>(ipc::share(a, {.copy = copy}, back_end)));
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
    REQUIRE(graph != nullptr);
    must(cudaGraphDestroy(graph));
}

TEST_CASE("ipc share: stream-ordered memory is copied into memory that has a handle, or refused") {
    test_stream s;
    auto const a = make_array(gpu, s.token(), {2, 3});
    s.finish();
    cuda::shareable back_end;
    importer other;
    auto const shared = ipc::share(a, back_end);
    CHECK(shared.copied());
    CHECK(other.attach(text(shared)).code == errc::ok);
    auto const got = other.tell(elements).bytes;
    REQUIRE(got.size() == 24);
    float last = 0;
    std::memcpy(&last, got.data() + 20, 4);
    CHECK(last == 6.0F);
    static_cast<void>(other.usage());  // which unmaps it
    try {
        static_cast<void>(ipc::share(a, {.copy = copy_policy::never}, back_end));
        FAIL_CHECK("shared in place");
    } catch (ferry::error const& e) {
        CHECK((e.code() == errc::not_exportable || e.code() == errc::copy_needed));
        CHECK(std::strstr(e.what(), "pool") != nullptr);
    }
}

TEST_CASE("ipc share: the same process attaches an alias through the session, and gets an error without it") {
    cuda::shareable back_end;
    ipc::session session;
    auto const a = make_plain({4});
    auto const shared = ipc::share(a, {.session = &session}, back_end);
    auto const alias = ipc::attach(shared.descriptor(), {.session = &session}, back_end);
    CHECK(alias.view().data() == a.memory.get());
    fails(errc::same_process, [&] { static_cast<void>(ipc::attach(shared.descriptor(), back_end)); }, {"session"});
}

TEST_CASE("ipc share: the read-only flag is shared, and without the CUDA back end the error names the header") {
    cuda::shareable back_end;
    auto a = make_plain({4});
    a.read_only = true;
    auto const shared = ipc::share(a, back_end);
    importer other;
    CHECK(numbers(other.attach(text(shared))) == std::vector<int>{1});
    fails(errc::no_backend, [&] { static_cast<void>(ipc::share(a)); }, {"ferry/cuda/ipc.hpp"});
}

// An event that is not returned would be missing: this side has four, the other side 256.
TEST_CASE("ipc share: two thousand rounds leave no event, mapping, file or memory behind") {
    int const rounds_at_all = is_short() ? 400 : 2000, warm = rounds_at_all / 10;
    cuda::shareable back_end{cuda::system, {.most_events = 4}};
    ipc::session session;
    importer other;
    auto const a = make_plain({4096});
    test_stream s;
    auto const free_bytes = [] {
        std::size_t left = 0, total = 0;
        must(cudaMemGetInfo(&left, &total));
        return left;
    };
    ipc_usage here{}, there{};
    std::size_t free_then = 0;
    for (int i = 0; i < rounds_at_all; ++i) {
        if (i == warm) here = usage_here(), there = other.usage(), free_then = free_bytes();
        auto shared = ipc::share(a, {.session = &session, .ready_on = s.token()}, back_end);
        REQUIRE(shared.descriptor().memories[0].ready.size() == 64);
        REQUIRE(other.attach(text(shared)).code == errc::ok);
        REQUIRE(other.tell(copy_later).code == errc::ok);
        REQUIRE(other.tell(drop).code == errc::ok);
        REQUIRE(shared.wait_for_readers(support::patience, s.token()));
        s.finish();  // an event is lent again when it rests
    }
    auto const left = usage_here(), left_there = other.usage();
    if (!is_short()) CHECK(free_bytes() + (std::size_t{8} << 20) >= free_then);  // else others use the GPU, too
    CHECK(left.files == here.files);
    CHECK(left.mappings == here.mappings);
    CHECK(left.events_opened - here.events_opened >= rounds_at_all - warm);  // the importer had one each time
    CHECK(left_there.files == there.files);
    CHECK(left_there.mappings == there.mappings);
    CHECK(left_there.opened == left_there.closed);
    CHECK(left_there.opened - there.opened == rounds_at_all - warm);
    CHECK(left_there.events_opened - there.events_opened == rounds_at_all - warm);
    CHECK(session.collect(support::patience) == 0);
    CHECK(session.counts().shares == 0);
    CHECK(back_end.export_memory({a.memory.get(), 4096, 0}, gpu, s.token()).description().ready.size() == 64);
}
