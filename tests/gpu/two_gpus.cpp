// Two GPUs: copies between them, tensors on a device that is not current, streams of the other device.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/reaper.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>
#include <support/counting_producer.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::atomic<int> peers_asked = 0;
std::atomic<bool> peers_are_denied = false;

}  // namespace

// Simulates GPUs without peer access, when a test requests it.
extern "C" cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    static auto* const next =
        reinterpret_cast<decltype(&cudaDeviceCanAccessPeer)>(dlsym(RTLD_NEXT, "cudaDeviceCanAccessPeer"));
    ++peers_asked;
    if (!peers_are_denied) return next(can, device, peer);
    *can = 0;
    return cudaSuccess;
}

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::stream_token;

constexpr device gpu1{device_type::cuda, 1};

bool alone() {
    if (gpus() >= 2) return false;
    MESSAGE("SKIPPED: needs two GPUs");
    return true;
}

/// Makes a device current for calls of the test.
gpu_array make_on(int id, stream_token ready_on, std::vector<std::int64_t> shape) {
    on_device const there{id};
    return make_array({device_type::cuda, id}, ready_on, std::move(shape));
}

struct pair_of_streams {
    on_device first{0};
    test_stream zero;
    test_stream one = [] {
        must(cudaSetDevice(1));
        return test_stream{};
    }();
    pair_of_streams() { must(cudaSetDevice(0)); }
};

[[nodiscard]] int current() {
    int id = -1;
    must(cudaGetDevice(&id));
    return id;
}

/// Whether a device has access to memory of a pool.
[[nodiscard]] bool is_open_to(int id, cudaMemPool_t pool) {
    cudaMemLocation where{};
    where.type = cudaMemLocationTypeDevice;
    where.id = id;
    cudaMemAccessFlags leave = cudaMemAccessFlagsProtNone;
    must(cudaMemPoolGetAccess(&leave, pool, &where));
    return leave == cudaMemAccessFlagsProtReadWrite;
}

/// Parts of a tensor of 20 x 30: some need a few pitched copies, others only the host can copy.
struct layout {
    std::vector<std::int64_t> shape, strides;
    std::int64_t offset;
};
std::vector<layout> const layouts{{{600}, {1}, 0},    {{20, 10}, {30, 1}, 5},       {{30, 20}, {1, 30}, 0},
                                  {{600}, {-1}, 599}, {{4, 5, 6}, {150, 30, 1}, 0}, {{10, 10}, {0, 3}, 0}};

/// Copies every layout of an array of the second GPU, ready already, to the first one.
template <class BackEnd>
void check_layouts(gpu_array const& whole, BackEnd& b, test_stream const& s) {
    for (auto const& l : layouts) {
        CAPTURE(l.shape.size());
        CAPTURE(l.offset);
        auto part = whole;
        part.shape = l.shape;
        part.strides = l.strides;
        part.offset = l.offset;
        auto const near = ferry::to_host(part, ferry::cuda::system);
        auto const got = ferry::to_dlpack(part, {.device = gpu, .stream = s.token()}, b);
        s.finish();
        CHECK(ferry::cuda::device_of_pointer(got.view().data()) == gpu);
        auto const n = static_cast<std::size_t>(near.view().size());
        auto const* const expected = static_cast<float const*>(near.view().data());
        CHECK(read(got.view().data(), n) == std::vector<float>(expected, expected + n));
        CHECK(left_no_error());
    }
}

/// Runs a function on a thread that has not queried peer access yet.
template <class F>
void on_fresh_thread(F f) {
    std::thread run{[&] {
        try {
            f();
        } catch (std::exception const& e) {
            FAIL_CHECK(shown(e.what()));
        }
    }};
    run.join();
}

/// A tensor of the second GPU, whose deleter counts: `act` takes it and is refused because of its stream.
template <class Act>
void refuses_stream(gpu_array const& array, Act act) {
    counting_producer producer{array.first(), float32, {100}};
    producer.on(static_cast<std::int32_t>(gpu1.type), gpu1.id);
    {
        auto tensor = ferry::from_dlpack(&producer.raw);
        fails(errc::stream, [&] { act(std::move(tensor)); }, {"stream of another device", ": pass a stream"});
        REQUIRE(static_cast<bool>(tensor));
        CHECK(tensor.view().data() == array.first());
        CHECK(producer.deleter_calls == 0);
    }
    CHECK(producer.deleter_calls == 1);
    CHECK(current() == 0);
    CHECK(left_no_error());
}

template <class BackEnd>
void refuses_streams(gpu_array const& array, pair_of_streams const& s, BackEnd& b) {
    auto const right = s.one.token();
    for (auto const wrong :
         {s.zero.token(), stream_token::cuda_legacy_default(0), stream_token::cuda_per_thread_default(0)}) {
        CAPTURE(wrong.native_handle());
        using tensor = ferry::managed_tensor;
        refuses_stream(array, [&](tensor&& t) { (void)ferry::to_dlpack(std::move(t), {.stream = wrong}, b, right); });
        refuses_stream(array,
                       [&](tensor&& t) { (void)ferry::from_dlpack<taken>(std::move(t), {.stream = wrong}, b, right); });
        refuses_stream(array, [&](tensor&& t) { (void)ferry::to_dlpack(std::move(t), {.stream = right}, b, wrong); });
        for (auto const ready : {right, ferry::already_ready})
            refuses_stream(array, [&](tensor&& t) {
                (void)ferry::to_dlpack(std::move(t), {.copy = copy_policy::always, .stream = wrong}, b, ready);
            });
        refuses_stream(array, [&](tensor&& t) { (void)ferry::to_host(std::move(t), b, wrong); });
    }
    // Of the source's device, and the result is of the other.
    for (auto const ready : {right, ferry::already_ready})
        refuses_stream(array, [&](ferry::managed_tensor&& t) {
            (void)ferry::to_dlpack(std::move(t), {.device = gpu, .stream = right}, b, ready);
        });
}

}  // namespace

TEST_CASE("two GPUs: memory, spaces and pointer queries of a device that is not current") {
    if (alone()) return;
    for (int id : {0, 1}) {
        on_device const elsewhere{1 - id};
        device const where{device_type::cuda, id};
        ferry::cuda::memory const m{where, 64, {}};
        CHECK(ferry::cuda::device_of_pointer(m.data()) == where);
        ferry::cuda::device_space const space{id};
        void* const p = space.allocate(64);
        CHECK(ferry::cuda::device_of_pointer(p) == where);
        space.deallocate(p, 64);
        ferry::cuda::stream const s{id};
        CHECK(ferry::cuda::detail::device_of(s, "a test") == id);
        CHECK(current() == 1 - id);
    }
}

TEST_CASE("two GPUs R44: streams of both devices are ordered, default streams by the device of the tensor") {
    if (alone()) return;
    pair_of_streams const s;
    auto const legacy1 = stream_token::cuda_legacy_default(1), thread1 = stream_token::cuda_per_thread_default(1);
    for (auto const from : {s.one.token(), legacy1, thread1})
        for (auto const to :
             {s.zero.token(), stream_token::cuda_legacy_default(0), stream_token::cuda_per_thread_default(0)}) {
            CAPTURE(from.native_handle());
            CAPTURE(to.native_handle());
            on_device const there{1};
            auto const array = make_poisoned(gpu1, {1000});
            gate closed{handle(from)};
            iota(array.first(), 1000, handle(from));
            must(cudaSetDevice(0));
            load_kernels();
            ferry::cuda::order(from, to);
            CHECK(current() == 0);
            CHECK_GATED(!closed.is_open());
            CHECK_GATED(cudaStreamQuery(handle(to)) == cudaErrorNotReady);
            static_cast<void>(cudaGetLastError());
            closed.open();
            ferry::cuda::wait(to);
            CHECK_GATED(!closed.was_forced());
            CHECK(is_iota(read(array.first(), 1000)));
        }
}

TEST_CASE("two GPUs: exchanges of a tensor that is not on the current device") {
    if (alone()) return;
    pair_of_streams const s;
    for (auto const theirs :
         {s.one.token(), stream_token::cuda_legacy_default(1), stream_token::cuda_per_thread_default(1)}) {
        auto array = make_on(1, theirs, {100});
        auto const host = ferry::to_host(array, ferry::cuda::system);
        CHECK(is_iota_on_host(host.view()));
        auto const same =
            ferry::to_dlpack(array, {.copy = copy_policy::always, .stream = s.one.token()}, ferry::cuda::system);
        s.one.finish();
        CHECK(ferry::cuda::device_of_pointer(same.view().data()) == gpu1);
        CHECK(is_iota(same.view()));
        CHECK(current() == 0);
    }
}

TEST_CASE("two GPUs R53: copies every layout from one to the other, on streams of the target") {
    if (alone()) return;
    pair_of_streams const s;
    for (auto const theirs : {s.one.token(), stream_token::cuda_legacy_default(1)})
        for (auto const ours : {s.zero.token(), stream_token::cuda_legacy_default(),
                                stream_token::cuda_legacy_default(0), stream_token{}, stream_token::no_sync()}) {
            auto array = make_on(1, theirs, {20, 30});
            auto const got = ferry::to_dlpack(array, {.device = gpu, .stream = ours}, ferry::cuda::system);
            s.zero.finish();
            s.one.finish();
            must(cudaStreamSynchronize(cudaStreamLegacy));
            ferry::cuda::wait(stream_token::cuda_legacy_default(1));
            CHECK(ferry::cuda::device_of_pointer(got.view().data()) == gpu);
            CHECK(got.is_copied());
            CHECK(is_iota(got.view()));
            CHECK(left_no_error());
        }
    auto const whole = make_on(1, s.one.token(), {20, 30});
    s.one.finish();
    auto ready = whole;
    ready.ready_on = ferry::already_ready;
    check_layouts(ready, ferry::cuda::system, s.zero);
}

TEST_CASE(
    "two GPUs R53: kernels copy layouts that need many pitched copies, queued, without blocking or using the host") {
    if (alone()) return;
    int can = 0;
    must(cudaDeviceCanAccessPeer(&can, 0, 1));
    if (can == 0) {
        MESSAGE("SKIPPED: these GPUs do not reach each other's memory");
        return;
    }
    pair_of_streams const s;
    ferry::cuda::copier_options packing;
    packing.pack = ferry::cuda::pack;
    ferry::cuda::copier copier{packing};
    auto whole = make_on(1, ferry::already_ready, {20, 30});
    check_layouts(whole, copier, s.zero);  // and loads the kernels
    whole.ready_on = s.one.token();
    whole.shape = {30, 20}, whole.strides = {1, 30};
    std::vector<float> expected;
    for (int column = 0; column < 30; ++column)
        for (int row = 0; row < 20; ++row) expected.push_back(static_cast<float>(row * 30 + column + 1));
    for (auto const on : {s.zero.token(), s.one.token()}) {
        // On a stream of the source's device the peer is written, else it is read.
        auto out = make_poisoned(gpu, {30, 20});
        must(cudaSetDevice(1));
        fill(whole.first(), poison, 2400);
        gate closed{s.one.get()};
        iota(whole.first(), 600, s.one.get());
        must(cudaSetDevice(0));
        ferry::cuda::order(s.one.token(), on);
        auto const plan = ferry::make_copy_plan(ferry::view_of(out), ferry::view_of(std::as_const(whole)));
        copier.copy(plan, out.first(), gpu, whole.first(), gpu1, on);
        CHECK_GATED(!closed.is_open());
        closed.open();
        ferry::cuda::wait(on);
        CHECK(read(out.first(), 600) == expected);
        CHECK(left_no_error());
    }
}

TEST_CASE("two GPUs: peer access that the program disabled between two copies is enabled again for kernels") {
    if (alone()) return;
    int can = 0;
    must(cudaDeviceCanAccessPeer(&can, 0, 1));
    if (can == 0) {
        MESSAGE("SKIPPED: these GPUs do not reach each other's memory");
        return;
    }
    pair_of_streams const s;
    ferry::cuda::copier_options packing;
    packing.pack = ferry::cuda::pack;
    ferry::cuda::copier copier{packing};
    auto const whole = make_on(1, ferry::already_ready, {20, 30});
    check_layouts(whole, copier, s.zero);
    for (int id : {0, 1}) {
        on_device const reader{id};
        must(cudaDeviceDisablePeerAccess(1 - id));
    }
    check_layouts(whole, copier, s.zero);
    CHECK(left_no_error());
}

TEST_CASE("two GPUs R48: streams of another device are refused with the cure, and the tensor stays the caller's") {
    if (alone()) return;
    pair_of_streams const s;
    ferry::cuda::copier copier;
    auto const array = make_on(1, ferry::already_ready, {100});
    refuses_streams(array, s, ferry::cuda::system);
    refuses_streams(array, s, copier);
    refuses_stream(array, [&](ferry::managed_tensor&& t) {
        (void)ferry::cuda::copy_async(std::move(t), pinned, copier, s.zero.token());
    });
    refuses_stream(array, [&](ferry::managed_tensor&& t) {
        (void)ferry::cuda::copy_async(std::move(t), pinned, copier, s.zero.token(), s.one.token());
    });
    auto shared = ferry::to_dlpack(array, {.stream = s.one.token()}, copier);
    shared = ferry::to_dlpack(std::move(shared), {.stream = stream_token::cuda_legacy_default()}, ferry::cuda::system,
                              s.one.token());
    CHECK(shared.view().data() == array.first());
    for (auto const where : {pinned, managed}) {  // streams of every device order it
        auto const anywhere = make_array(where, s.zero.token(), {100});
        auto const got = ferry::to_dlpack(anywhere, {.stream = s.one.token()}, ferry::cuda::system);
        s.one.finish();
        CHECK(is_iota_on_host(got.view()));
    }
}

TEST_CASE("two GPUs: a copy on a stream of a third device is refused, and nothing is written") {
    if (alone()) return;
    pair_of_streams const s;
    ferry::cuda::copier copier;
    auto const in = make_on(1, ferry::already_ready, {1000}), out = make_on(1, ferry::already_ready, {1000});
    fill(out.first(), poison, 4000);
    auto const plan = ferry::make_copy_plan(ferry::view_of(const_cast<gpu_array&>(out)), ferry::view_of(in));
    std::vector<float> near(1000);
    auto const refuses = [&](auto& b) {
        auto const cure = {"stream of another device", "belongs to cuda:0", "the data is on cuda:1",
                           "pass a stream of cuda:1"};
        for (auto const wrong : {s.zero.token(), stream_token::cuda_legacy_default(0)}) {
            fails(errc::stream, [&] { b.copy(plan, out.first(), gpu1, in.first(), gpu1, wrong); }, cure);
            fails(errc::stream, [&] { b.copy(plan, near.data(), ferry::cpu, in.first(), gpu1, wrong); }, cure);
            fails(
                errc::stream,
                [&] { ferry::copy(ferry::view_of(const_cast<gpu_array&>(out)), ferry::view_of(in), b, wrong); }, cure);
        }
    };
    refuses(ferry::cuda::system);
    refuses(copier);
    s.zero.finish();
    CHECK(read(out.first(), 1000) == read(make_poisoned(gpu, {1000}).first(), 1000));
    ferry::copy(ferry::view_of(const_cast<gpu_array&>(out)), ferry::view_of(in), copier, s.one.token());
    CHECK(is_iota(read(out.first(), 1000)));
    fails(errc::device, [&] { ferry::cuda::system.copy(plan, out.first(), gpu1, in.first(), gpu, s.zero.token()); },
          {"cuda:0", "cuda:1"});
    ferry::cuda::memory const theirs{gpu1, 4000, s.zero.token()};
    CHECK(ferry::cuda::device_of_pointer(theirs.data()) == gpu1);
    CHECK(current() == 0);
}

TEST_CASE("two GPUs R44: a default stream without a device is that of the tensor's device") {
    if (alone()) return;
    auto const legacy = stream_token::cuda_legacy_default();
    on_device const there{1};
    load_kernels();
    auto const from = make_poisoned(gpu1, {1000}), to = make_poisoned(gpu1, {1000});
    ferry::cuda::copier copier;
    ferry::cuda::reaper reaper;
    auto tensor = ferry::to_dlpack(from);
    auto const copy = [&](auto& b) {
        gate closed{cudaStreamLegacy};
        iota(from.first(), from.size(), cudaStreamLegacy);
        must(cudaSetDevice(0));
        opener const later{closed};
        ferry::copy(ferry::view_of(const_cast<gpu_array&>(to)), ferry::view_of(from), b, legacy);
        CHECK(closed.is_open());
        CHECK(is_iota(read(to.first(), 1000)));
        must(cudaSetDevice(1));
    };
    copy(ferry::cuda::system);
    fill(to.first(), poison, 4000);
    copy(copier);
    gate closed{cudaStreamLegacy};
    must(cudaSetDevice(0));
    ferry::cuda::release_after(legacy, reaper, std::move(tensor));
    CHECK(reaper.poll() == 0);
    CHECK(!closed.is_open());
    closed.open();
    ferry::cuda::wait(stream_token::cuda_legacy_default(1));
    CHECK(reaper.poll() == 1);
    must(cudaSetDevice(1));
}

TEST_CASE(
    "two GPUs: a wait for a default stream that fails without having waited is made again on the stream's own GPU") {
    if (alone()) return;
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    on_device const there{1};
    load_kernels();
    gate closed{cudaStreamLegacy};
    must(cudaSetDevice(0));
    opener const later{closed, std::chrono::milliseconds{50}};
    calls::fail_at(1, calls::failure::unwaited);
    fails(errc::driver, [] { ferry::cuda::wait(stream_token::cuda_legacy_default(1)); });
    calls::fail_at(0);
    CHECK(closed.is_open());
    must(cudaSetDevice(1));
    CHECK(left_no_error());
}

TEST_CASE("two GPUs: cudaMalloc memory and memory of pools both copy, with and without peer access") {
    if (alone()) return;
    pair_of_streams const s;
    constexpr std::size_t n = 1 << 20;
    std::int64_t const shape[] = {static_cast<std::int64_t>(n)};
    for (bool const peers : {false, true}) {
        if (peers) {
            static_cast<void>(ferry::cuda::detail::enable_devices(0, 1));
            static_cast<void>(ferry::cuda::detail::enable_devices(1, 0));
        }
        void* const src = ferry::cuda::device_space{1}.allocate(n * 4);
        void* const dst = ferry::cuda::device_space{0}.allocate(n * 4);
        {
            on_device const there{1};
            load_kernels();
            iota(static_cast<float*>(src), n, s.one.get());
            s.one.finish();
        }
        ferry::copy(ferry::tensor_view{static_cast<float*>(dst), shape, {}, gpu},
                    ferry::tensor_view{static_cast<float const*>(src), shape, {}, gpu1}, ferry::cuda::system,
                    s.zero.token());
        CHECK(is_iota(read(dst, n)));
        ferry::cuda::device_space{1}.deallocate(src, n * 4);
        ferry::cuda::device_space{0}.deallocate(dst, n * 4);
        CHECK(left_no_error());
    }
}

TEST_CASE("two GPUs: access to a peer's memory is enabled for its device and for its pool") {
    if (alone()) return;
    pair_of_streams const s;
    int can = 0;
    must(cudaDeviceCanAccessPeer(&can, 0, 1));
    if (can == 0) {
        MESSAGE("SKIPPED: these GPUs do not reach each other's memory");
        return;
    }
    ferry::cuda::pool const pool{1};
    ferry::cuda::pool_space const space{pool, s.one.get()};
    void* const p = space.allocate(4096);
    for (int again = 0; again < 2; ++again) {
        ferry::cuda::detail::enable_peer(0, 1, p);
        CHECK(current() == 0);
        CHECK(left_no_error());
        CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
        static_cast<void>(cudaGetLastError());
        CHECK(is_open_to(0, pool.get()));
    }
    space.deallocate(p, 4096);
}

TEST_CASE("two GPUs: a thread queries peer access once for each direction") {
    if (alone()) return;
    pair_of_streams const s;
    auto const array = make_on(1, ferry::already_ready, {100});
    on_fresh_thread([&] {
        peers_asked = 0;
        for (int again = 0; again < 3; ++again) {
            auto const got = ferry::to_dlpack(array, {.device = gpu, .stream = s.zero.token()}, ferry::cuda::system);
            s.zero.finish();
            CHECK(is_iota(got.view()));
            CHECK(peers_asked == 2);
        }
    });
}

TEST_CASE("alone: two GPUs, one of which is reset" * doctest::skip()) {
    auto const moves = [] {
        pair_of_streams const s;
        auto const array = make_on(1, s.one.token(), {100});
        auto const got = ferry::to_dlpack(array, {.device = gpu, .stream = s.zero.token()}, ferry::cuda::system);
        s.zero.finish();
        CHECK(is_iota(got.view()));
        int can = 0;
        must(cudaDeviceCanAccessPeer(&can, 0, 1));
        if (can != 0) CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
        static_cast<void>(cudaGetLastError());
    };
    moves();
    {
        on_device const there{1};
        must(cudaDeviceReset());
    }
    moves();
}

TEST_CASE("two GPUs: peer access is enabled again after a reset of one") {
    if (alone()) return;
    pid_t const child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "gpu", "--test-case=alone: two GPUs*", "--no-skip", static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("two GPUs without peer access: copies are staged, and calls that need access fail") {
    if (alone()) return;
    pair_of_streams const s;
    // Memory without access for the other device, whatever ran before.
    ferry::cuda::pool const pools[] = {ferry::cuda::pool{0}, ferry::cuda::pool{1}};
    auto const close = [](int id) {
        on_device const reader{id};
        static_cast<void>(cudaDeviceDisablePeerAccess(1 - id));
        static_cast<void>(cudaGetLastError());
    };
    auto const open = [](int id) {
        int can = 0;
        must(cudaDeviceCanAccessPeer(&can, id, 1 - id));
        on_device const reader{id};
        if (can != 0) static_cast<void>(cudaDeviceEnablePeerAccess(1 - id, 0));
        static_cast<void>(cudaGetLastError());
    };
    for (int id : {0, 1}) {
        close(id);
        must(cudaDeviceSetMemPool(id, pools[id].get()));
    }
    peers_are_denied = true;
    on_fresh_thread([&] {
        ferry::cuda::copier_options packing;
        packing.pack = ferry::cuda::pack;
        ferry::cuda::copier plain, packs{packing};
        auto const whole = make_on(1, ferry::already_ready, {20, 30});
        check_layouts(whole, ferry::cuda::system, s.zero);
        check_layouts(whole, plain, s.zero);
        check_layouts(whole, packs, s.zero);
        CHECK(!is_open_to(0, pools[1].get()));
        CHECK(!is_open_to(1, pools[0].get()));
        auto const out = make_poisoned(gpu, {30, 20});
        std::int64_t const shape[] = {30, 20}, across[] = {1, 30};
        auto const plan =
            ferry::make_copy_plan(ferry::view_of(const_cast<gpu_array&>(out)),
                                  ferry::tensor_view{const_cast<float const*>(whole.first()), shape, across, gpu1});
        for (auto const& [on, here, there] :
             {std::tuple{s.zero.get(), "cuda:0", "cuda:1"}, std::tuple{s.one.get(), "cuda:1", "cuda:0"}})
            fails(errc::no_peer_access, [&] { ferry::cuda::pack(plan, out.first(), whole.first(), on); },
                  {here, there, "ferry::copy"});
        CHECK(left_no_error());
    });
    peers_are_denied = false;
    for (int id : {0, 1}) {
        open(id);
        must(cudaDeviceSetMemPool(id, ferry::cuda::pool::default_of(id).get()));
    }
}
