// Every call of CUDA fails once: each exchange releases all that it took, exactly once, and leaves no error behind.
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/pinned_pool.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/reaper.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>
#include <support/counting_producer.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::atomic<long> events_destroyed = 0, streams_made = 0;

template <class Function>
Function* next_of(char const* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// What calls.cpp does not count.
extern "C" cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t e) {
    static auto* const next = next_of<decltype(cudaEventDestroy)>("cudaEventDestroy");
    ++events_destroyed;
    return next(e);
}
extern "C" cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
    static auto* const next = next_of<decltype(cudaStreamCreateWithFlags)>("cudaStreamCreateWithFlags");
    cudaError_t const e = next(s, flags);
    if (e == cudaSuccess) ++streams_made;
    return e;
}
extern "C" cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t s) {
    static auto* const next = next_of<decltype(cudaStreamDestroy)>("cudaStreamDestroy");
    --streams_made;
    return next(s);
}

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::errc;
using ferry::request;
using ferry::stream_token;

/// A tensor whose deleter counts, made anew for each attempt.
struct counted {
    counting_producer producer;
    explicit counted(gpu_array const& array) : producer{array.first(), float32, {1}} {
        producer.on(static_cast<std::int32_t>(array.where.type), array.where.id);
        auto& t = producer.tensor();
        t.ndim = static_cast<std::int32_t>(array.shape.size());
        std::copy(array.shape.begin(), array.shape.end(), producer.shape);
        if (array.strides.empty()) return;
        std::copy(array.strides.begin(), array.strides.end(), producer.strides);
        t.strides = producer.strides;
    }
};

/// What there is of things that can leak, since `calls::reset()`.
struct things {
    std::int64_t blocks, bytes, events, streams, threads;

    /// \param failed  the call that was made to fail, so that it made nothing
    [[nodiscard]] static things now(std::string_view failed) {
        bool const no_block = failed.starts_with("cudaMalloc") || failed == "cudaHostAlloc",
                   no_event = failed == "cudaEventCreateWithFlags";
        return {calls::count(calls::of::allocate) - no_block - calls::count(calls::of::free),
                static_cast<std::int64_t>(pool_bytes_used()),
                calls::count(calls::of::create_event) - no_event - events_destroyed, streams_made, count_threads()};
    }
    [[nodiscard]] static std::int64_t count_threads() {
        auto const tasks = std::filesystem::directory_iterator{"/proc/self/task"};
        return std::distance(begin(tasks), end(tasks));
    }
};

/// An entry point, and what it is called with. `run` is given a tensor like `from`, or null.
struct entry {
    char const* name;
    gpu_array const* from;
    std::function<void(DLManagedTensorVersioned*)> run;
    bool tells_all = true;  ///< else some calls may fail without harm
};

/// Makes the n-th call fail, for n = 1, 2, … until none does. Prints a line. `settle` waits for the streams that the
/// entry uses.
void fails_well(entry const& e, std::function<void()> const& settle) {
    std::string const name = e.name;
    CAPTURE(name);
    auto const attempt = [&](bool& threw, std::string& failed) {
        std::optional<counted> once;
        if (e.from != nullptr) once.emplace(*e.from);
        try {
            e.run(once ? &once->producer.raw : nullptr);
        } catch (ferry::error const& reported) {
            threw = true;
            failed = reported.api();
            CHECK((reported.code() == errc::driver || reported.code() == errc::out_of_memory ||
                   reported.code() == errc::device));
        } catch (std::exception const&) {  // the test's own call
            threw = true;
        }
        return once ? once->producer.deleter_calls : 1;
    };
    bool threw = false;
    std::string failed;
    for (int warm = 0; warm < 2; ++warm) CHECK(attempt(threw, failed) == 1);
    CHECK(!threw);
    settle();

    int told = 0, released = 0, attempts = 0;
    auto const fail_each_call = [&] {
        told = released = attempts = 0;
        events_destroyed = 0;
        calls::reset();
        auto const before = things::now({});
        things left{};
        for (bool injected = true; injected && attempts < 1000;) {
            ++attempts;
            CAPTURE(attempts);
            threw = false;
            failed.clear();
            calls::reset();
            events_destroyed = 0;
            calls::fail_at(attempts);
            int const deleted = attempt(threw, failed);
            injected = calls::has_failed();
            calls::fail_at(0);
            settle();
            CHECK((e.tells_all ? threw == injected : injected || !threw));
            CHECK(deleted == 1);
            released += deleted;
            told += threw;
            // A thread that was joined is listed for a moment more.
            for (int i = 0; i < 1000 && things::count_threads() > before.threads; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds{1});
            auto const now = things::now(threw ? failed : std::string{});
            left.blocks += now.blocks;
            left.events += now.events;
            left.bytes = now.bytes - before.bytes;
            left.streams = now.streams - before.streams;
            left.threads = now.threads - before.threads;
            CHECK(left_no_error());
        }
        return left;
    };
    auto left = fail_each_call();
    // CUDA's own threads start when it pleases, and once.
    if (left.threads > 0) left.threads = fail_each_call().threads;
    CHECK(attempts > 1);  // some call could fail
    CHECK(attempts < 1000);
    CHECK(left.blocks == 0);
    CHECK(left.bytes == 0);
    CHECK(left.events == 0);
    CHECK(left.streams == 0);
    CHECK(left.threads == 0);
    auto const n = [](auto x) { return static_cast<long long>(x); };
    char deleters[40] = "no tensor";
    if (e.from != nullptr) std::snprintf(deleters, sizeof deleters, "%d of %d released", released, attempts);
    std::printf(
        "injected | %-42s | n = 1 to %3d, %3d told | %-19s | left: %lld blocks, %lld bytes, %lld events, %lld streams, %lld threads\n",
        e.name, attempts - 1, told, deleters, n(left.blocks), n(left.bytes), n(left.events), n(left.streams),
        n(left.threads));
    std::fflush(stdout);
}

/// Two lanes and four slots of a MiB, so that starting and pinning takes no time.
ferry::cuda::copier_options small_copier(bool packs = false) {
    ferry::cuda::copier_options o;
    o.lanes = 2;
    o.slot_bytes = std::size_t{1} << 20;
    o.most_pinned = std::size_t{4} << 20;
    if (packs) o.pack = ferry::cuda::pack;
    return o;
}

}  // namespace

TEST_CASE("cuda: whatever call fails, everything is released exactly once, and nothing is left") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const theirs, ours;
    auto const source = make_array(gpu, theirs.token(), {100}), locked = make_array(pinned, theirs.token(), {100});
    auto const large = make_array(gpu, theirs.token(), {3'000'000}),
               large_host = make_array(ferry::cpu, {}, {3'000'000});
    auto wide = large, tall = large, scattered = large;
    wide.shape = {1500, 2000}, wide.strides = {1, 1500};
    tall.shape = {2000, 100}, tall.strides = {1, 2000};
    scattered.shape = {50, 4, 1024}, scattered.strides = {10'240, 4096, 1};
    theirs.finish();
    auto const& s = ferry::cuda::system;
    auto const take = [](DLManagedTensorVersioned* raw) { return ferry::from_dlpack(raw); };
    auto const to_host = [&](bool packs = false) {
        return [&, packs](DLManagedTensorVersioned* raw) {
            ferry::cuda::copier copier{small_copier(packs)};
            auto const host = ferry::to_host(take(raw), copier, theirs.token());
            if (host.view().shape().size() == 1) CHECK(is_iota_on_host(host.view()));
            CHECK(copier.slots().first == copier.slots().second);
        };
    };
    auto const to = [&](ferry::device where, bool packs = false) {
        return [&, where, packs](DLManagedTensorVersioned* raw) {
            ferry::cuda::copier copier{small_copier(packs)};
            auto tensor = take(raw);
            auto const ready_on = tensor.device() == ferry::cpu ? ferry::already_ready : theirs.token();
            static_cast<void>(ferry::to_dlpack(std::move(tensor),
                                               {.device = where, .copy = copy_policy::always, .stream = ours.token()},
                                               copier, ready_on));
            ours.finish();
            CHECK(copier.slots().first == copier.slots().second);
        };
    };
    std::vector<entry> const entries{
        {"system: to_host", &source,
         [&](auto* raw) {
             auto const host = ferry::to_host(take(raw), s, theirs.token());
             CHECK(is_iota_on_host(host.view()));
         }},
        {"system: to_host of pinned memory", &locked,
         [&](auto* raw) {
             auto const host = ferry::to_host(take(raw), s, theirs.token());
             CHECK(is_iota_on_host(host.view()));
         }},
        {"system: a copy on a stream", &source,
         [&](auto* raw) {
             auto const got =
                 ferry::to_dlpack(take(raw), {.copy = copy_policy::always, .stream = ours.token()}, s, theirs.token());
             ours.finish();
         }},
        {"system: shared in order", &source,
         [&](auto* raw) {
             static_cast<void>(ferry::to_dlpack(take(raw), {.stream = ours.token()}, s, theirs.token()));
         }},
        {"system: to pinned memory", &source,
         [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.device = pinned}, s, theirs.token())); }},
        {"system: to managed memory", &source,
         [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.device = managed}, s, theirs.token())); }},
        {"system: from_dlpack with a copy", &source,
         [&](auto* raw) {
             static_cast<void>(ferry::from_dlpack<taken>(
                 take(raw), {.copy = copy_policy::always, .stream = ours.token()}, s, theirs.token()));
             ours.finish();
         }},
        {"system: pinned memory to the device", &locked,
         [&](auto* raw) {
             static_cast<void>(ferry::to_dlpack(take(raw), {.device = gpu, .stream = ours.token()}, s, theirs.token()));
             ours.finish();
         }},
        {"system: columns, by the host", &tall,
         [&](auto* raw) { static_cast<void>(ferry::to_host(take(raw), s, theirs.token())); }},
        {"copier: to_host", &source, to_host(), false},
        {"copier: to_host by lanes", &large, to_host(), false},
        {"copier: to_host, packed", &wide, to_host(true), false},
        {"copier: to_host, by the host", &tall, to_host(), false},
        {"copier: ordinary memory to the device by lanes", &large_host, to(gpu), false},
        {"copier: to pinned memory", &source, to(pinned), false},
        {"copier: to pinned memory, packed", &wide, to(pinned, true), false},
        {"copier: to pinned memory, in pieces", &scattered, to(pinned), false},
        {"copier: to managed memory", &source, to(managed), false},
        {"copier: pinned memory to the device", &locked, to(gpu), false},
        {"copier: rearranged on the device", &wide, to(gpu, true), false},
        {"copy_async", &source,
         [&](auto* raw) {
             ferry::cuda::copier copier{small_copier()};
             auto const host = ferry::cuda::copy_async(take(raw), pinned, copier, theirs.token(), ours.token()).get();
             CHECK(is_iota_on_host(host.view()));
         }},
        {"release_after", &source,
         [&](auto* raw) {
             ferry::cuda::reaper reaper;
             auto tensor = take(raw);
             ferry::cuda::release_after(ours.token(), reaper, std::move(tensor));
             ours.finish();
             CHECK(reaper.poll() == 1);
         }},
        {"copy_batch on a stream, which waits", nullptr,
         [&](auto*) {
             ferry::cuda::memory const to_here{pinned, 400, {}};
             ferry::cuda::piece const only[] = {{to_here.data(), source.first(), 400}};
             ferry::cuda::copy_batch(only, ours.token());
             ferry::cuda::wait(ours.token());
         }},
        {"copy_batch on the legacy stream", nullptr,
         [&](auto*) {
             ferry::cuda::piece const only[] = {{locked.first(), source.first(), 400}};
             ferry::cuda::copy_batch(only, stream_token::cuda_legacy_default());
             must(cudaStreamSynchronize(cudaStreamLegacy));
         }},
        {"pack_pieces", nullptr,
         [&](auto*) {
             ferry::cuda::piece const only[] = {{locked.first(), source.first(), 400}};
             ferry::cuda::pack_pieces(only, ours.get());
             ours.finish();
         }},
        {"order", nullptr, [&](auto*) { ferry::cuda::order(theirs.token(), ours.token()); }},
        {"wait", nullptr, [&](auto*) { ferry::cuda::wait(theirs.token()); }},
        {"memory on a stream", nullptr, [&](auto*) { ferry::cuda::memory const m(gpu, 4096, ours.token()); }},
        {"memory without a stream", nullptr, [&](auto*) { ferry::cuda::memory const m(gpu, 4096, {}); }},
        {"memory, pinned", nullptr, [&](auto*) { ferry::cuda::memory const m(pinned, 4096, {}); }},
        {"memory, managed", nullptr, [&](auto*) { ferry::cuda::memory const m(managed, 4096, {}); }},
        {"device_space", nullptr, [&](auto*) { ferry::buffer<ferry::cuda::device_space> const b{4096}; }},
        {"pinned_pool", nullptr,
         [&](auto*) {
             ferry::cuda::pinned_pool const pool;
             {
                 ferry::buffer<ferry::cuda::pinned_pool> const b{4096, pool};
             }
             ferry::buffer<ferry::cuda::pinned_pool> const again{4096, pool};
         }},
        {"pool_space", nullptr,
         [&](auto*) {
             ferry::buffer<ferry::cuda::pool_space> const b{4096,
                                                            ferry::cuda::pool_space{ferry::cuda::pool{}, ours.get()}};
         }},
        {"where_is", nullptr, [&](auto*) { static_cast<void>(ferry::cuda::where_is(source.first())); }},
        {"event", nullptr,
         [&](auto*) {
             ferry::cuda::event e;
             e.record(ours.get());
             e.wait();
         }},
    };
    for (auto const& e : entries) fails_well(e, [&] { theirs.finish(), ours.finish(); });
}

TEST_CASE("cuda: an error that is not the end is cleared, and the next call works") {
    fails(errc::device, [] { ferry::cuda::device_guard const on{1000}; });
    CHECK(left_no_error());
    fails(errc::out_of_memory, [] { ferry::cuda::memory const m(gpu, std::size_t{1} << 46, {}); });
    CHECK(left_no_error());
    auto const array = make_array(gpu, ferry::already_ready, {10});
    CHECK(is_iota(ferry::view_of(array)));
}

namespace {

/// Runs one test case of this program, which is skipped otherwise, in a process of its own. Its exit status; −1: a
/// signal.
int run_alone(char const* name) {
    std::string const filter = std::string{"--test-case="} + name;
    pid_t const child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "gpu", filter.c_str(), "--no-skip", static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Memory of every kind that dies after main, when CUDA is gone.
std::vector<gpu_array>& until_the_end() {
    static std::vector<gpu_array> arrays;
    return arrays;
}

}  // namespace

TEST_CASE("alone: deleters after the end of CUDA" * doctest::skip()) {
    until_the_end();  // made before CUDA, dies after it
    for (auto const where : cuda_memory) until_the_end().push_back(make_array(where, ferry::already_ready, {100}));
    test_stream const a, b;
    ferry::cuda::order(a.token(), b.token());
}

TEST_CASE("alone: a device that is reset" * doctest::skip()) {
    {
        test_stream const a, b;
        ferry::cuda::order(a.token(), b.token());
    }
    auto held = make_array(gpu, ferry::already_ready, {100});
    must(cudaDeviceReset());
    held.memory.reset();  // leaked, or an error that nobody sees
    CHECK(left_no_error());
    test_stream const a, b;
    ferry::cuda::order(a.token(), b.token());  // with a new event
    auto const fresh = make_array(gpu, a.token(), {100});
    auto const host = ferry::to_host(fresh, ferry::cuda::system);
    CHECK(is_iota_on_host(host.view()));
}

TEST_CASE("alone: a context that is lost" * doctest::skip()) {
    test_stream const s;
    auto array = make_array(gpu, s.token(), {100});
    load_kernels();
    iota(reinterpret_cast<float*>(std::uintptr_t{0x1000}), 100, s.get());  // an illegal address
    auto const is_lost = [](auto f) {
        try {
            f();
        } catch (ferry::error const& e) {
            return e.code() == errc::context_lost && std::strstr(e.what(), "start the process again") != nullptr;
        }
        return false;
    };
    bool const first = is_lost([&] { static_cast<void>(ferry::to_host(array, ferry::cuda::system)); });
    array.memory.reset();  // leaks quietly
    bool const second = is_lost([&] { ferry::cuda::wait(s.token()); });
    std::_Exit(first && second ? 0 : 1);  // nothing that waits for the device can end well
}

TEST_CASE("cuda R66: deleters survive the end of CUDA, a reset and a lost context") {
    CHECK(run_alone("alone: deleters after the end of CUDA") == 0);
    CHECK(run_alone("alone: a device that is reset") == 0);
    CHECK(run_alone("alone: a context that is lost") == 0);
}
