// Every call of CUDA fails once: each exchange releases all that it took, exactly once, and leaves no error behind.
#include <gpu/calls.hpp>
#include <gpu/world.hpp>
#include <support/counting_producer.hpp>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::errc;
using ferry::request;
using ferry::stream_token;

/// A tensor on the device whose deleter counts, made anew for each attempt.
struct counted {
    counting_producer producer;
    explicit counted(gpu_array const& array) : producer{array.first(), float32, {100}} {
        producer.on(static_cast<std::int32_t>(array.where.type), array.where.id);
    }
};

}  // namespace

TEST_CASE("cuda: whatever call fails, everything is released exactly once") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const theirs, ours;
    auto const source = make_array(gpu, theirs.token(), {100});
    auto const locked = make_array(pinned, theirs.token(), {100});
    theirs.finish();
    auto const& s = ferry::cuda::system;
    struct entry {
        char const* name;
        gpu_array const& from;
        std::function<void(DLManagedTensorVersioned*)> run;
    };
    auto const take = [](DLManagedTensorVersioned* raw) { return ferry::from_dlpack(raw); };
    std::vector<entry> const entries{
        {"to_host", source, [&](auto* raw) {
             auto const host = ferry::to_host(take(raw), s, theirs.token());
             CHECK(is_iota_on_host(host.view()));
         }},
        {"to_host of pinned memory", locked, [&](auto* raw) {
             auto const host = ferry::to_host(take(raw), s, theirs.token());
             CHECK(is_iota_on_host(host.view()));
         }},
        {"a copy on a stream", source,
         [&](auto* raw) {
             auto const got = ferry::to_dlpack(take(raw), {.copy = copy_policy::always, .stream = ours.token()}, s, theirs.token());
             ours.finish();
         }},
        {"shared in order", source, [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.stream = ours.token()}, s, theirs.token())); }},
        {"to pinned memory", source,
         [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.device = pinned}, s, theirs.token())); }},
        {"to managed memory", source,
         [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.device = managed}, s, theirs.token())); }},
        {"from_dlpack with a copy", source,
         [&](auto* raw) {
             static_cast<void>(ferry::from_dlpack<taken>(take(raw), {.copy = copy_policy::always, .stream = ours.token()}, s, theirs.token()));
             ours.finish();
         }},
        {"pinned to the device", locked,
         [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.device = gpu, .stream = ours.token()}, s, theirs.token())); ours.finish(); }},
    };
    for (auto const& e : entries) {
        std::string const name = e.name;
        CAPTURE(name);
        {
            counted once{e.from};
            e.run(&once.producer.raw);
            CHECK(once.producer.deleter_calls == 1);
        }
        auto const before = pool_bytes_used();
        int n = 1;
        for (bool failed = true; failed && n < 1000; ++n) {
            CAPTURE(n);
            counted once{e.from};
            failed = false;
            calls::fail_at(n);
            try {
                e.run(&once.producer.raw);
            } catch (ferry::error const& reported) {
                failed = true;
                CHECK((reported.code() == errc::driver || reported.code() == errc::out_of_memory || reported.code() == errc::device));
            } catch (std::exception const&) {  // the test's own call
                failed = true;
            }
            bool const injected = calls::has_failed();
            calls::fail_at(0);
            CHECK(failed == injected);
            CHECK(once.producer.deleter_calls == 1);
            failed = injected;
            must(cudaStreamSynchronize(ours.get()));
            must(cudaStreamSynchronize(theirs.get()));
            CHECK(pool_bytes_used() == before);
            CHECK(left_no_error());
        }
        CHECK(n > 2);  // some call could fail
        CHECK(n < 1000);
    }
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

/// Runs one test case of this program, which is skipped otherwise, in a process of its own. Its exit status; −1: a signal.
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
