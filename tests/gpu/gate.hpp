// A gate closes a stream: a kernel spins there on a flag of the host until somebody opens it. And kernels to write
// with. Plain C++; gate.cu holds the kernels.
#pragma once

#include <ferry/cuda/api.hpp>

#include <cstddef>

namespace support {

/// Throws std::runtime_error unless a call of a test's own succeeded.
void must(cudaError_t e, char const* what = "a test's own call");

/// Nothing queued on the stream behind a gate runs before it is opened; after 8 seconds (FERRY_GATE_SECONDS) it opens
/// by itself, so that a failing test ends. Memory that CUDA frees by waiting for the device (cudaFree, cudaFreeHost)
/// must not die while it is closed.
class gate {
   public:
    /// On the device of the stream, or for default streams on the current one.
    explicit gate(cudaStream_t s);
    gate(gate const&) = delete;
    gate& operator=(gate const&) = delete;
    /// Opens, and waits for the kernel.
    ~gate();

    void open() noexcept;
    [[nodiscard]] bool is_open() const noexcept;
    /// It opened because nobody did: something waited that must not. Asked after the stream has run.
    [[nodiscard]] bool was_forced() const noexcept;

   private:
    int volatile* flags_ = nullptr;  // [0]: opened by the host; [1]: opened by time
    cudaEvent_t passed_ = nullptr;
    int device_ = 0;
};

/// Whether gates stay closed until somebody opens them. Not when they are told to open in less than a second: where
/// launches block, as under compute-sanitizer, nothing else would go on.
[[nodiscard]] bool gates_hold();

/// A check of what only a gate that holds can show.
#define CHECK_GATED(...)                               \
    do {                                               \
        if (support::gates_hold()) CHECK(__VA_ARGS__); \
    } while (false)

/// Queues 1, 2, 3, … , n at `to`. Any memory that the device reaches.
void iota(float* to, std::size_t n, cudaStream_t s);
/// Queues to[i] = from[i] + more.
void add(float* to, float const* from, float more, std::size_t n, cudaStream_t s);

/// Loads the kernels of the current device: loading waits for the device, which a gate would hold up.
void load_kernels();

}  // namespace support
