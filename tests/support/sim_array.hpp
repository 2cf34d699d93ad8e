// Arrays on a simulated device, and their adapter.
#pragma once

#include <ferry/exchange/from_dlpack.hpp>
#include <support/sim_space.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace support {

// … and those of an exchange.
using ferry::copy_policy;
using ferry::managed_tensor;
using ferry::request;

/// An array of floats; copies are handles to the same memory.
struct sim_array {
    std::shared_ptr<sim_memory> memory;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  // empty: compact
    ferry::device where;
    ferry::stream_token ready_on;
    std::int64_t offset = 0;  // of the first element, in elements

    [[nodiscard]] float* first() const { return static_cast<float*>(memory->data()) + offset; }
    [[nodiscard]] ferry::strides_view steps() const {
        return strides.empty() ? ferry::strides_view{} : ferry::strides_view{strides};
    }
};

/// Makes an array of 1, 2, 3, …, n, written on `ready_on` after the work that is queued there.
inline sim_array make_array(sim_system& sim, ferry::device where, ferry::stream_token ready_on,
                            std::vector<std::int64_t> shape) {
    auto const count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 1.0f);
    auto const bytes = values.size() * sizeof(float);
    auto memory = std::make_shared<sim_memory>(sim.make_memory(where, bytes));
    sim.write(ready_on, memory->block(), values.data(), bytes);
    return {std::move(memory), std::move(shape), {}, where, ready_on};
}

/// A consumer with adopt only.
struct taken {
    ferry::managed_tensor tensor;
};

/// Opens a gate when the host waits, or after a time limit.
class opener {
   public:
    opener(sim_system& sim, sim_gate gate)
        : thread_{[&sim, gate] {
              sim.until_host_waits();
              gate.open();
          }} {}
    ~opener() { thread_.join(); }

   private:
    std::thread thread_;
};

/// Element `i` as the device reads it now.
inline float element(sim_system& sim, ferry::tensor_view const& v, std::int64_t i) {
    return sim.read<float>(static_cast<float const*>(v.data()) + i);
}

}  // namespace support

template <>
struct ferry::array_traits<support::sim_array> {
    static tensor_view view(support::sim_array& a) { return {a.first(), a.shape, a.steps(), a.where}; }
    static tensor_view view(support::sim_array const& a) {
        return {const_cast<float const*>(a.first()), a.shape, a.steps(), a.where};
    }
    static support::sim_array share(support::sim_array const& a) { return a; }
    static stream_token ready_on(support::sim_array const& a) { return a.ready_on; }
};

template <>
struct ferry::array_traits<support::taken> {
    static support::taken adopt(managed_tensor m) { return {std::move(m)}; }
};
