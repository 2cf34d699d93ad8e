// Two GPUs: copies from peer to peer, tensors off the current device, streams of the other device.
#include <gpu/world.hpp>

#include <vector>

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

/// Makes a device current for the test's own calls.
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

}  // namespace

TEST_CASE("two GPUs: memory, spaces and facts of the device that is not current") {
    if (alone()) return;
    for (int id : {0, 1}) {
        on_device const elsewhere{1 - id};
        device const where{device_type::cuda, id};
        ferry::cuda::memory const m{where, 64, {}};
        CHECK(ferry::cuda::where_is(m.data()) == where);
        ferry::cuda::device_space const space{id};
        void* const p = space.allocate(64);
        CHECK(ferry::cuda::where_is(p) == where);
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
            CHECK(!closed.is_open());
            CHECK(cudaStreamQuery(handle(to)) == cudaErrorNotReady);
            static_cast<void>(cudaGetLastError());
            closed.open();
            ferry::cuda::wait(to);
            CHECK(!closed.was_forced());
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
        CHECK(ferry::cuda::where_is(same.view().data()) == gpu1);
        CHECK(is_iota(same.view()));
        CHECK(current() == 0);
    }
}

TEST_CASE("two GPUs R53: copies from one to the other, on streams of either, of every layout") {
    if (alone()) return;
    pair_of_streams const s;
    for (auto const theirs : {s.one.token(), stream_token::cuda_legacy_default(1)})
        for (auto const ours : {s.zero.token(), s.one.token(), stream_token::cuda_legacy_default(), stream_token{},
                                stream_token::no_sync()}) {
            auto array = make_on(1, theirs, {20, 30});
            auto const got = ferry::to_dlpack(array, {.device = gpu, .stream = ours}, ferry::cuda::system);
            s.zero.finish();
            s.one.finish();
            must(cudaStreamSynchronize(cudaStreamLegacy));
            ferry::cuda::wait(stream_token::cuda_legacy_default(1));
            CHECK(ferry::cuda::where_is(got.view().data()) == gpu);
            CHECK(got.is_copied());
            CHECK(is_iota(got.view()));
            CHECK(left_no_error());
        }
    auto const whole = make_on(1, s.one.token(), {20, 30});
    s.one.finish();
    struct row {
        std::vector<std::int64_t> shape, strides;
        std::int64_t offset;
    };
    for (auto const& r : {row{{20, 10}, {30, 1}, 5}, row{{30, 20}, {1, 30}, 0}, row{{600}, {-1}, 599},
                          row{{4, 5, 6}, {150, 30, 1}, 0}, row{{10, 10}, {0, 3}, 0}}) {
        auto part = whole;
        part.shape = r.shape;
        part.strides = r.strides;
        part.offset = r.offset;
        part.ready_on = ferry::already_ready;
        auto const near = ferry::to_host(part, ferry::cuda::system);
        auto const got = ferry::to_dlpack(part, {.device = gpu, .stream = s.zero.token()}, ferry::cuda::system);
        s.zero.finish();
        auto const n = static_cast<std::size_t>(near.view().size());
        auto const* const expected = static_cast<float const*>(near.view().data());
        CHECK(read(got.view().data(), n) == std::vector<float>(expected, expected + n));
    }
}

TEST_CASE("two GPUs: a copy on a stream of a third device, or of the wrong one, is right") {
    if (alone()) return;
    pair_of_streams const s;
    auto const in = make_on(1, ferry::already_ready, {1000}), out = make_on(1, ferry::already_ready, {1000});
    fill(out.first(), poison, 4000);
    auto const plan = ferry::make_copy_plan(ferry::view_of(const_cast<gpu_array&>(out)), ferry::view_of(in));
    ferry::cuda::system.copy(plan, out.first(), gpu1, in.first(), gpu1, s.zero.token());
    s.zero.finish();
    CHECK(is_iota(read(out.first(), 1000)));
    std::vector<float> near(1000);
    ferry::cuda::system.copy(plan, near.data(), ferry::cpu, in.first(), gpu1, s.zero.token());
    s.zero.finish();
    CHECK(is_iota(near));
    fails(errc::device, [&] { ferry::cuda::system.copy(plan, out.first(), gpu1, in.first(), gpu, s.zero.token()); },
          {"cuda:0", "cuda:1"});
    ferry::cuda::memory const theirs{gpu1, 4000, s.zero.token()};
    CHECK(ferry::cuda::where_is(theirs.data()) == gpu1);
}

TEST_CASE("two GPUs: cudaMalloc memory and memory of pools both copy, with and without peer access") {
    if (alone()) return;
    pair_of_streams const s;
    constexpr std::size_t n = 1 << 20;
    std::int64_t const shape[] = {static_cast<std::int64_t>(n)};
    for (bool const peers : {false, true}) {
        if (peers) {
            ferry::cuda::detail::enable_peer(0, 1, nullptr);
            ferry::cuda::detail::enable_peer(1, 0, nullptr);
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

TEST_CASE("two GPUs: leave to reach a peer's memory is had of its device, and of its pool") {
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
        cudaMemLocation where{};
        where.type = cudaMemLocationTypeDevice;
        where.id = 0;
        cudaMemAccessFlags leave = cudaMemAccessFlagsProtNone;
        must(cudaMemPoolGetAccess(&leave, pool.get(), &where));
        CHECK(leave == cudaMemAccessFlagsProtReadWrite);
    }
    space.deallocate(p, 4096);
}
