// Arrays on a simulated device, and their adapter.
#pragma once

#include <ferry/exchange/from_dlpack.hpp>
#include <support/float_array.hpp>
#include <support/sim_space.hpp>

#include <cstdint>
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

using sim_array = float_array<sim_memory>;

/// Makes an array of 1, 2, 3, …, n, written on `ready_on` after the work that is queued there.
inline sim_array make_array(sim_system& sim, ferry::device where, ferry::stream_token ready_on,
                            std::vector<std::int64_t> shape) {
    sim_array made{nullptr, std::move(shape), {}, where, ready_on};
    std::vector<float> values(made.size());
    std::iota(values.begin(), values.end(), 1.0f);
    auto const bytes = values.size() * sizeof(float);
    made.memory = std::make_shared<sim_memory>(sim.make_memory(where, bytes));
    sim.write(ready_on, made.memory->block(), values.data(), bytes);
    return made;
}

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
