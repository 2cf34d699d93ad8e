// Arrays in CUDA memory of every kind, with an adapter as a library's author writes it, and helpers of the tests.
#pragma once

#include <ferry/cuda.hpp>
#include <gpu/gate.hpp>
#include <support/fails.hpp>
#include <support/float_array.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace support {

inline constexpr ferry::device gpu{ferry::device_type::cuda}, pinned{ferry::device_type::cuda_host},
    managed{ferry::device_type::cuda_managed};
inline constexpr ferry::device cuda_memory[] = {gpu, pinned, managed};
inline constexpr unsigned char poison = 0xDB;

[[nodiscard]] inline int gpus() {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) static_cast<void>(cudaGetLastError());
    return n;
}

/// A stream of a test. A blocking one and the legacy default stream wait for each other.
class test_stream {
   public:
    explicit test_stream(unsigned flags = cudaStreamNonBlocking) {
        must(cudaStreamCreateWithFlags(&handle_, flags), "cudaStreamCreateWithFlags");
    }
    test_stream(test_stream const&) = delete;
    test_stream& operator=(test_stream const&) = delete;
    ~test_stream() { static_cast<void>(cudaStreamDestroy(handle_)); }
    [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
    [[nodiscard]] ferry::stream_token token() const noexcept { return ferry::stream_token::cuda(handle_); }
    void finish() const { must(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }
    [[nodiscard]] bool is_idle() const {
        bool const is = cudaStreamQuery(handle_) == cudaSuccess;
        if (!is) static_cast<void>(cudaGetLastError());
        return is;
    }

   private:
    cudaStream_t handle_ = nullptr;
};

[[nodiscard]] inline cudaStream_t handle(ferry::stream_token t) { return ferry::cuda::detail::handle_of(t); }

using gpu_array = float_array<ferry::cuda::memory>;

/// Fills memory at once, on a stream that synchronises with no other.
inline void fill(void* p, unsigned char value, std::size_t bytes) {
    test_stream const s;
    must(cudaMemsetAsync(p, value, bytes, s.get()), "cudaMemsetAsync");
    s.finish();
}

/// Memory of unwritten floats.
[[nodiscard]] inline gpu_array make_poisoned(ferry::device where, std::vector<std::int64_t> shape,
                                             ferry::stream_token ready_on = ferry::already_ready) {
    gpu_array a{nullptr, std::move(shape), {}, where, ready_on};
    auto const bytes = a.size() * sizeof(float);
    a.memory = std::make_shared<ferry::cuda::memory>(where, bytes, ferry::stream_token{});
    if (bytes == 0) return a;
    if (where.type == ferry::device_type::cpu) std::memset(a.memory->data(), poison, bytes);
    else fill(a.memory->data(), poison, bytes);
    return a;
}

/// 1, 2, 3, …, n, written after the work queued on `ready_on`; at once when it has no stream.
[[nodiscard]] inline gpu_array make_array(ferry::device where, ferry::stream_token ready_on,
                                          std::vector<std::int64_t> shape) {
    auto a = make_poisoned(where, std::move(shape), ready_on);
    if (where.type == ferry::device_type::cpu) {
        std::iota(a.first(), a.first() + a.size(), 1.0f);
        return a;
    }
    load_kernels();
    if (ready_on.names_stream()) {
        iota(a.first(), a.size(), handle(ready_on));
    } else {
        test_stream const s;
        iota(a.first(), a.size(), s.get());
        s.finish();
    }
    return a;
}

/// Another device is current for a scope.
class on_device {
   public:
    explicit on_device(int id) {
        must(cudaGetDevice(&before_));
        must(cudaSetDevice(id));
    }
    on_device(on_device const&) = delete;
    on_device& operator=(on_device const&) = delete;
    ~on_device() { static_cast<void>(cudaSetDevice(before_)); }

   private:
    int before_ = 0;
};

/// The current contents, read on a stream of the array's device that waits for no other: other devices may have no
/// access to pool memory.
[[nodiscard]] inline std::vector<float> read(void const* p, std::size_t n) {
    std::vector<float> values(n);
    cudaPointerAttributes facts{};
    must(cudaPointerGetAttributes(&facts, p), "cudaPointerGetAttributes");
    on_device const there{facts.type == cudaMemoryTypeDevice ? facts.device : 0};
    test_stream const s;
    must(cudaMemcpyAsync(values.data(), p, n * sizeof(float), cudaMemcpyDefault, s.get()), "cudaMemcpyAsync");
    s.finish();
    return values;
}

[[nodiscard]] inline bool is_iota(std::vector<float> const& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] != static_cast<float>(i + 1)) return false;
    return !values.empty();
}
[[nodiscard]] inline bool is_iota(ferry::tensor_view const& v) {
    return is_iota(read(v.data(), static_cast<std::size_t>(v.size())));
}
/// The same without a CUDA call: for data that must be complete.
[[nodiscard]] inline bool is_iota_on_host(ferry::tensor_view const& v) {
    auto const* const p = static_cast<float const*>(v.data());
    return is_iota(std::vector<float>(p, p + v.size()));
}

/// Opens a gate later, from another thread.
class opener {
   public:
    explicit opener(gate& g, std::chrono::milliseconds after = std::chrono::milliseconds{100})
        : thread_{[&g, after] {
              std::this_thread::sleep_for(after);
              g.open();
          }} {}
    ~opener() { thread_.join(); }

   private:
    std::thread thread_;
};

/// Allocated bytes of the device's current pool, once the legacy stream has run.
[[nodiscard]] inline std::uint64_t pool_bytes_used(int device = 0) {
    cudaMemPool_t pool = nullptr;
    std::uint64_t used = 0;
    must(cudaDeviceGetMemPool(&pool, device));
    must(cudaStreamSynchronize(cudaStreamLegacy));
    must(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    return used;
}

/// Checks that no CUDA error is pending.
[[nodiscard]] inline bool left_no_error() { return cudaPeekAtLastError() == cudaSuccess; }

}  // namespace support
