// The gates and kernels of gpu/gate.hpp, as work of the fake's streams.
#include <fake_cuda/fake.hpp>
#include <gpu/gate.hpp>
#include <gpu/compiled.hpp>

#include <ferry/cuda/pack.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

double patience() {
    char const* const said = std::getenv("FERRY_GATE_SECONDS");
    return said != nullptr ? std::atof(said) : 120;  // a hang
}

/// The state of a closed gate; its flags come first.
struct shared {
    int flags[2];
    cudaStream_t on;
};

/// A flag that the host and a stream share.
[[nodiscard]] std::atomic_ref<int> flag(int volatile* at) { return std::atomic_ref{*const_cast<int*>(at)}; }

}  // namespace

namespace support {

void must(cudaError_t e, char const* what) {
    if (e != cudaSuccess) throw std::runtime_error{std::string{what} + ": " + cudaGetErrorName(e)};
}

void load_kernels() {}

gate::gate(cudaStream_t s) {
    int before = 0;
    must(cudaGetDevice(&before));
    device_ = before;
    if (s != cudaStreamLegacy && s != cudaStreamPerThread) must(cudaStreamGetDevice(s, &device_));
    must(cudaSetDevice(device_));
    flags_ = (new shared{{}, s})->flags;
    must(cudaEventCreateWithFlags(&passed_, cudaEventDisableTiming));
    auto const closed = [flags = flags_] {
        using clock = std::chrono::steady_clock;
        auto const end = clock::now() + std::chrono::duration<double>{patience()};
        while (flag(flags).load() == 0 && clock::now() < end)
            std::this_thread::sleep_for(std::chrono::microseconds{50});
        if (flag(flags).load() == 0) flag(flags + 1) = 1;
    };
    must(fake::queue(s, closed), "a gate");
    must(cudaEventRecord(passed_, s));
    must(cudaSetDevice(before));
}

gate::~gate() {
    open();
    static_cast<void>(cudaEventSynchronize(passed_));
    static_cast<void>(cudaEventDestroy(passed_));
    static_cast<void>(cudaGetLastError());
    auto* const kept = reinterpret_cast<shared*>(const_cast<int*>(flags_));
    int before = 0;
    static_cast<void>(cudaGetDevice(&before));
    static_cast<void>(cudaSetDevice(device_));
    fake::settle(kept->on);  // a test frees what its own kernels behind the gate still write, which a device would bear
    static_cast<void>(cudaSetDevice(before));
    delete kept;
}

bool gates_hold() { return patience() >= 1; }

void gate::open() noexcept { flag(flags_) = 1; }
bool gate::is_open() const noexcept { return flag(flags_).load() != 0 || flag(flags_ + 1).load() != 0; }
bool gate::was_forced() const noexcept { return flag(flags_ + 1).load() != 0; }

void iota(float* to, std::size_t n, cudaStream_t s) {
    if (n == 0) return;
    auto const write = [n](std::byte* d, std::byte const*) {
        for (std::size_t i = 0; i < n; ++i) {
            auto const value = static_cast<float>(i + 1);
            std::memcpy(d + i * sizeof value, &value, sizeof value);
        }
    };
    must(fake::queue(s, to, nullptr, n * sizeof(float), write), "iota");
}

void add(float* to, float const* from, float more, std::size_t n, cudaStream_t s) {
    if (n == 0) return;
    auto const write = [n, more](std::byte* d, std::byte const* f) {
        for (std::size_t i = 0; i < n; ++i) {
            float value = 0;
            std::memcpy(&value, f + i * sizeof value, sizeof value);
            value += more;
            std::memcpy(d + i * sizeof value, &value, sizeof value);
        }
    };
    must(fake::queue(s, to, from, n * sizeof(float), write), "add");
}

ferry::cuda::pack_function compiled_pack() noexcept { return ferry::cuda::pack; }

}  // namespace support
