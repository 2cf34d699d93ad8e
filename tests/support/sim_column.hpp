// Columns on a simulated device, with one allocation for each buffer.
#pragma once

#include <support/sim_space.hpp>
#include <support/split_columns.hpp>

#include <cstddef>
#include <memory>

namespace support {

/// Makes such copies on a simulated device, written on stream `on`.
class sim_columns : public split_columns {
   public:
    sim_columns(sim_system& sim, ferry::device d, ferry::stream_token on)
        : split_columns{d, [&sim, d, on](void const* bytes, std::size_t size, std::shared_ptr<void>& owner) {
                            auto const memory = std::make_shared<sim_memory>(sim.make_memory(d, size));
                            sim.write(on, memory->block(), bytes, size);
                            owner = memory;
                            return memory->data();
                        }} {}
};

}  // namespace support
