// A gate closes a stream: a kernel spins on a flag of the host until a test opens it. Also kernels that write data.
// Plain C++; gate.cu contains the kernels.
#pragma once

#include <ferry/cuda/api.hpp>

#include <cstddef>

namespace support {

/// Throws std::runtime_error unless a CUDA call of a test succeeded.
void must(cudaError_t e, char const* what = "a test's own call");

/// Work queued on the stream after a gate does not run before the gate is opened; it opens by itself after 120 seconds
/// (FERRY_GATE_SECONDS), so that a failing test ends. Memory whose release synchronises the device (cudaFree,
/// cudaFreeHost) must not be released while the gate is closed.
class gate {
   public:
    /// On the device of the stream; for default streams on the current device.
    explicit gate(cudaStream_t s);
    gate(gate const&) = delete;
    gate& operator=(gate const&) = delete;
    /// Opens the gate, and waits for the kernel.
    ~gate();

    void open() noexcept;
    [[nodiscard]] bool is_open() const noexcept;
    /// Whether the gate opened by itself: a call waited that must not wait. Valid after the stream has run.
    [[nodiscard]] bool was_forced() const noexcept;

   private:
    int volatile* flags_ = nullptr;  // [0]: opened by the host; [1]: opened by time
    cudaEvent_t passed_ = nullptr;
    int device_ = 0;
};

/// Whether gates stay closed until they are opened. False when FERRY_GATE_SECONDS is below one second: where launches
/// block, as under compute-sanitizer, a closed gate would block the test.
[[nodiscard]] bool gates_hold();

/// A check that holds only if gates stay closed.
#define CHECK_GATED(...)                               \
    do {                                               \
        if (support::gates_hold()) CHECK(__VA_ARGS__); \
    } while (false)

/// Queues writes of 1, 2, 3, …, n to `to`, in memory that the device can access.
void iota(float* to, std::size_t n, cudaStream_t s);
/// Queues to[i] = from[i] + more.
void add(float* to, float const* from, float more, std::size_t n, cudaStream_t s);

/// Loads the kernels of the current device: loading synchronises the device, which a closed gate would block.
void load_kernels();

}  // namespace support
