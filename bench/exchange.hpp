// The array that the benchmarks of exchanges in C++ export.
#pragma once

#include <ferry/tensor/view.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>

namespace bench {

inline float elements[2 * 3 * 4 * 5];
inline constexpr std::int64_t extents[] = {2, 3, 4, 5};

/// The smallest owner that is not trivial: moved in, released once. Its memory lives elsewhere, so that only ferry is
/// timed.
struct owner {
    float* data = nullptr;
    std::int64_t const* shape = nullptr;

    owner(float* d, std::int64_t const* s) noexcept : data{d}, shape{s} {}
    owner(owner&& other) noexcept : data{std::exchange(other.data, nullptr)}, shape{other.shape} {}
    ~owner() { benchmark::DoNotOptimize(data); }

    [[nodiscard]] ferry::tensor_view ferry_view() const noexcept { return {data, {shape, 4}}; }
    [[nodiscard]] ferry::tensor_view ferry_view() noexcept { return {data, {shape, 4}}; }
};

}  // namespace bench
