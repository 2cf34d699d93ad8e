// Waits between CUDA streams, proven by gates: a gate holds the producer's stream closed during the exchange.
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <array>
#include <vector>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::device;
using ferry::errc;
using ferry::stream_token;

/// One stream of each kind: both default streams, two non-blocking streams, and one blocking stream.
struct streams {
    test_stream a, b, blocking{cudaStreamDefault};
    std::array<stream_token, 5> all{stream_token::cuda_legacy_default(), stream_token::cuda_per_thread_default(),
                                    a.token(), b.token(), blocking.token()};
};

/// An array of 1000 elements that the stream `theirs` writes once the gate is open.
struct closed_array {
    gpu_array array;
    gate closed;
    closed_array(device where, stream_token theirs)
        : array{make_poisoned(where, {10, 100}, theirs)}, closed{handle(theirs)} {
        load_kernels();
        iota(array.first(), array.size(), handle(theirs));
    }
};

}  // namespace

TEST_CASE("cuda R43: order makes each kind of stream wait for each other, and does not block") {
    streams const s;
    for (auto const from : s.all)
        for (auto const to : s.all) {
            CAPTURE(from.native_handle());
            CAPTURE(to.native_handle());
            auto result = make_poisoned(gpu, {1000});
            closed_array producer{gpu, from};
            ferry::cuda::order(from, to);
            add(result.first(), producer.array.first(), 0, 1000, handle(to));
            CHECK_GATED(!producer.closed.is_open());
            producer.closed.open();
            must(cudaStreamSynchronize(handle(to)));
            CHECK_GATED(!producer.closed.was_forced());
            CHECK(is_iota(read(result.first(), 1000)));
            CHECK(left_no_error());
        }
}

TEST_CASE("cuda R43: ordering equal streams makes no call, different ones a record and a wait") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    streams const s;
    ferry::cuda::order(s.all[2], s.all[3]);  // makes the thread's event
    for (auto const from : s.all)
        for (auto const to : s.all) {
            calls::reset();
            ferry::cuda::order(from, to);
            int const each = from == to ? 0 : 1;
            CHECK(calls::count(calls::of::record) == each);
            CHECK(calls::count(calls::of::wait_event) == each);
            CHECK(calls::count() == 2 * each);
            if (from == to) CHECK(calls::count(calls::of::query) == 0);
        }
    calls::reset();
    ferry::cuda::order(stream_token::no_sync(), s.all[2]);
    ferry::cuda::order(s.all[2], {});
    CHECK(calls::count() + calls::count(calls::of::query) == 0);
}

TEST_CASE(
    "cuda R48: an exchange asks nothing of equal streams, and of different ones which they are and whether captured") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    streams const s;
    auto const array = make_array(gpu, s.a.token(), {4});
    s.a.finish();
    auto const questions = [&](stream_token ours) {
        static_cast<void>(ferry::to_dlpack(array, {.stream = ours}, ferry::cuda::system));  // asks for their devices
        calls::reset();
        static_cast<void>(ferry::to_dlpack(array, {.stream = ours}, ferry::cuda::system));
        return calls::count(calls::of::query);
    };
    CHECK(questions(s.a.token()) == 0);
    CHECK(calls::count() == 0);
    CHECK(questions(s.b.token()) == 4);
    CHECK(calls::count() == 2);
    s.b.finish();
}

TEST_CASE("cuda R43: an exchange returns while the producer's stream is closed") {
    streams const s;
    auto const theirs = s.all[2];
    for (auto const where : cuda_memory)
        for (auto const ours : s.all) {
            CAPTURE(ferry::name(where.type));
            CAPTURE(ours.native_handle());
            auto result = make_poisoned(gpu, {1000});
            closed_array producer{where, theirs};
            auto const got = ferry::from_dlpack<taken>(producer.array, {.stream = ours}, ferry::cuda::system);
            CHECK_GATED(!producer.closed.is_open());
            CHECK(got.tensor.device().type == where.type);
            add(result.first(), static_cast<float const*>(got.tensor.view().data()), 0, 1000, handle(ours));
            producer.closed.open();
            must(cudaStreamSynchronize(handle(ours)));
            CHECK_GATED(!producer.closed.was_forced());
            CHECK(is_iota(read(result.first(), 1000)));
        }
}

TEST_CASE("cuda R43: a copy on another stream waits for the producer, and the host does not") {
    streams const s;
    auto const theirs = s.all[2];
    for (auto const ours : s.all) {
        if (ours == theirs) continue;
        closed_array producer{gpu, theirs};
        auto const got =
            ferry::to_dlpack(producer.array, {.copy = copy_policy::always, .stream = ours}, ferry::cuda::system);
        CHECK_GATED(!producer.closed.is_open());
        CHECK(got.is_copied());
        producer.closed.open();
        must(cudaStreamSynchronize(handle(ours)));
        CHECK_GATED(!producer.closed.was_forced());
        CHECK(is_iota(got.view()));
    }
}

TEST_CASE("cuda R44: None is the legacy default stream") {
    streams const s;
    auto result = make_poisoned(gpu, {1000});
    closed_array producer{gpu, s.all[2]};
    auto const got = ferry::to_dlpack(producer.array, {}, ferry::cuda::system);
    CHECK_GATED(!producer.closed.is_open());
    add(result.first(), static_cast<float const*>(got.view().data()), 0, 1000, cudaStreamLegacy);
    producer.closed.open();
    must(cudaStreamSynchronize(cudaStreamLegacy));
    CHECK(is_iota(read(result.first(), 1000)));
}

TEST_CASE("cuda R44: -1 requests no wait") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    streams const s;
    for (auto const where : cuda_memory) {
        auto const array = make_array(where, s.all[2], {4});
        s.a.finish();
        calls::reset();
        auto const got = ferry::to_dlpack(array, {.stream = stream_token::no_sync()}, ferry::cuda::system);
        CHECK(calls::count() == 0);
    }
}

TEST_CASE("cuda R44: null handles and streams of other device types are refused") {
    test_stream const s;
    auto const null = ferry::cuda::stream_ref{cudaStream_t{}};
    auto const ambiguous = {"null handle", "legacy", "per-thread"};
    fails(errc::stream, [&] { ferry::cuda::order(null, s.token()); }, ambiguous);
    fails(errc::stream, [&] { ferry::cuda::order(s.token(), null); }, ambiguous);
    fails(errc::stream, [&] { ferry::cuda::wait(null); }, ambiguous);
    fails(errc::stream, [&] { ferry::cuda::memory const m(gpu, 16, null); }, ambiguous);
    fails(errc::stream, [&] { ferry::cuda::order(s.token(), stream_token::rocm_default()); }, {"rocm"});
    auto const array = make_array(gpu, s.token(), {4});
    s.finish();
    fails(errc::stream, [&] { static_cast<void>(ferry::to_dlpack(array, {.stream = null}, ferry::cuda::system)); },
          {"R44"});
    fails(errc::stream, [&] {
        static_cast<void>(ferry::to_dlpack(array, {.stream = stream_token::rocm_default()}, ferry::cuda::system));
    });
    CHECK(left_no_error());
}

TEST_CASE("cuda R48: data copied to the host is complete on return, whatever stream produced it") {
    streams const s;
    for (auto const theirs : s.all)
        for (auto const where : cuda_memory) {
            CAPTURE(ferry::name(where.type));
            CAPTURE(theirs.native_handle());
            closed_array producer{where, theirs};
            opener const later{producer.closed};
            auto const got = ferry::to_host(producer.array, ferry::cuda::system);
            CHECK_GATED(producer.closed.is_open());
            CHECK_GATED(!producer.closed.was_forced());
            CHECK(got.device().type == ferry::device_type::cpu);
            CHECK(is_iota_on_host(got.view()));
            CHECK(got.is_copied() == (where.type == ferry::device_type::cuda));
        }
}

TEST_CASE("cuda R49: without a stream, the host waits until pinned and managed memory is complete") {
    streams const s;
    for (auto const where : {pinned, managed}) {
        closed_array producer{where, s.all[2]};
        opener const later{producer.closed};
        auto const got = ferry::to_dlpack(producer.array, {}, ferry::cuda::system);
        CHECK_GATED(producer.closed.is_open());
        CHECK_GATED(!producer.closed.was_forced());
        CHECK(is_iota_on_host(got.view()));
    }
}

TEST_CASE("cuda: each thread uses its own event") {
    streams const s;
    std::vector<std::thread> threads;
    std::array<bool, 4> right{};
    for (auto& ok : right)
        threads.emplace_back([&ok] {
            test_stream const from, to;
            auto const in = make_array(gpu, ferry::already_ready, {1000});
            auto const out = make_poisoned(gpu, {1000}), last = make_poisoned(gpu, {1000});
            for (int i = 0; i < 100; ++i) {
                add(out.first(), in.first(), 0, 1000, from.get());
                ferry::cuda::order(from.token(), to.token());
                add(last.first(), out.first(), 0, 1000, to.get());
                ferry::cuda::order(to.token(), from.token());
            }
            from.finish();
            ok = is_iota(read(last.first(), 1000));
        });
    for (auto& t : threads) t.join();
    for (bool const ok : right) CHECK(ok);
}
