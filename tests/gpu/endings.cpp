// ferry after an error, a device reset, a lost context, and the shutdown of CUDA.
#include <ferry/cuda/ipc/allocation.hpp>
#include <ferry/cuda/pack.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace support;
using ferry::errc;
using ferry::stream_token;

}  // namespace

TEST_CASE("cuda: a non-sticky error is cleared, and the next call works") {
    fails(errc::device, [] { ferry::cuda::device_guard const on{1000}; });
    CHECK(left_no_error());
    fails(errc::out_of_memory, [] { ferry::cuda::memory const m(gpu, std::size_t{1} << 46, {}); });
    CHECK(left_no_error());
    auto const array = make_array(gpu, ferry::already_ready, {10});
    CHECK(is_iota(ferry::view_of(array)));
}

TEST_CASE("cuda capture: a thread keeps its capture mode when it cannot be relaxed") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    calls::fail_at(1, calls::failure::advice);
    {
        ferry::cuda::detail::relaxed_capture_mode const relaxed;
    }
    CHECK(calls::has_failed());
    calls::fail_at(0);
    auto mode = cudaStreamCaptureModeGlobal;
    must(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeGlobal);
}

namespace {

/// Runs one test case of this program, which is skipped otherwise, in its own process. Returns the exit status; −1: a
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

/// Memory of every kind that is released after main, when CUDA has shut down.
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
    held.memory.reset();  // leaked, or an error that is not reported
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
            return e.code() == errc::context_lost && std::strstr(e.what(), "restart the process") != nullptr;
        }
        return false;
    };
    bool const first = is_lost([&] { static_cast<void>(ferry::to_host(array, ferry::cuda::system)); });
    array.memory.reset();  // leaks quietly
    bool const second = is_lost([&] { ferry::cuda::wait(s.token()); });
    std::_Exit(first && second ? 0 : 1);  // nothing that waits for the device can end well
}

/// State that is loaded once in a process, on first use: a failed load is repeated.
TEST_CASE("alone: what is loaded is loaded again when it failed" * doctest::skip()) {
    REQUIRE(calls::are_seen());
    test_stream const s;
    auto const until_it_works = [&](char const* what, auto f) {
        CAPTURE(shown(what));
        int n = 0;
        for (bool failed = true; failed && n < 100; s.finish()) {
            bool threw = false;
            calls::fail_at(++n);
            try {
                f();
            } catch (ferry::error const& e) {
                threw = e.code() == errc::driver;
            }
            failed = calls::has_failed();
            calls::fail_at(0);
            CHECK(threw == failed);
        }
        std::printf("injected | %-48s | n = 1 to %d, told, and what was not loaded is by the next call\n", what, n - 1);
        std::fflush(stdout);
        return n - 1;
    };
    // Each function of the driver in turn is not found.
    CHECK(until_it_works("order, the first of a process",
                         [&] { ferry::cuda::order(s.token(), stream_token::cuda_legacy_default()); }) > 10);
    auto const from = make_array(gpu, s.token(), {64});
    auto const to = make_poisoned(gpu, {64});
    s.finish();
    std::int64_t const shape[] = {8, 8}, turned[] = {1, 8};
    auto const plan = ferry::make_copy_plan({to.first(), shape, {}, gpu}, {from.first(), shape, turned, gpu});
    CHECK(until_it_works("pack, the first of a process",
                         [&] { ferry::cuda::pack(plan, to.first(), from.first(), s.get()); }) > 3);
    CHECK(read(to.first(), 64)[1] == 9.0f);
    ferry::cuda::piece const only[] = {{to.first(), from.first(), 256}};
    CHECK(until_it_works("pack_pieces, the first of a process", [&] { ferry::cuda::pack_pieces(only, s.get()); }) > 2);
    CHECK(is_iota(read(to.first(), 64)));
    calls::fail_at(1);
    fails(errc::driver, [&] { static_cast<void>(ferry::cuda::allocation_of(from.first())); });
    calls::fail_at(0);
    CHECK(ferry::cuda::allocation_of(from.first()).bytes >= 256);
    CHECK(left_no_error());
}

TEST_CASE("cuda: a failed load is repeated by the next call") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    CHECK(run_alone("alone: what is loaded is loaded again when it failed") == 0);
}

TEST_CASE("cuda R66: deleters survive the end of CUDA, a reset and a lost context") {
    CHECK(run_alone("alone: deleters after the end of CUDA") == 0);
    CHECK(run_alone("alone: a device that is reset") == 0);
    CHECK(run_alone("alone: a context that is lost") == 0);
}
