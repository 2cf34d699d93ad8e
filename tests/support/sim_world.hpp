// The simulated devices as the environment of a suite; see exchange_suite.hpp.
#pragma once

#include <support/sim_array.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace support {

struct sim_world {
    using array_type = sim_array;
    using gate_type = sim_gate;

    static constexpr ferry::device gpu{ferry::device_type::cuda}, other_gpu{ferry::device_type::cuda, 1},
        pinned{ferry::device_type::cuda_host}, managed{ferry::device_type::cuda_managed},
        extension{ferry::device_type::ext_dev};
    static constexpr ferry::device everywhere[] = {gpu, pinned, managed, extension}, far[] = {gpu, extension};

    /// Six floats, 2 × 3 by default, that a stream writes when the gate is open.
    struct closed_array {
        sim_gate gate;
        sim_array array;
    };

    sim_system back_end{gpu, other_gpu, pinned, managed, extension};
    ferry::stream_token theirs, ours;

    explicit sim_world(ferry::device d = gpu)
        : theirs{back_end.make_stream(d.type)}, ours{back_end.make_stream(d.type)} {}

    [[nodiscard]] static constexpr bool has_other_gpu() noexcept { return true; }
    [[nodiscard]] ferry::stream_token ours_of(ferry::device) const { return ours; }
    [[nodiscard]] closed_array closed(ferry::device d, ferry::stream_token on,
                                      std::vector<std::int64_t> shape = {2, 3}) {
        auto gate = back_end.close(on);
        return {std::move(gate), make_array(back_end, d, on, std::move(shape))};
    }
    [[nodiscard]] opener open_later(sim_gate const& gate) { return {back_end, gate}; }
    /// Whether an allocation may wait for the device: never.
    [[nodiscard]] static int open_later_for_memory(sim_gate const&) { return 0; }
    [[nodiscard]] ferry::stream_token foreign_stream() { return back_end.make_stream(ferry::device_type::ext_dev); }
    void finish(ferry::stream_token on) { back_end.finish(on); }
    [[nodiscard]] float value(ferry::tensor_view const& v, std::int64_t i) { return element(back_end, v, i); }
    /// Calls `f` with the simulation, for facts that a real device does not provide.
    template <class Function>
    void probe(Function f) {
        f(back_end);
    }
};

}  // namespace support
