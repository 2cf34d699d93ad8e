// ferry: a producer of tensors of the simulated device, whose work is pending.
#pragma once

#include <ferry/conformance/detail/box.hpp>
#include <ferry/conformance/detail/foreign.hpp>
#include <ferry/conformance/sim_device.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/negotiate.hpp>

namespace ferry::inline v0::conformance::detail {

/// A tensor of a simulated device, whose elements are still to be written by work on a stream, and its producer.
class scene {
   public:
    scene(data_type type, shape_view shape, device where)
        : sim{where},
          pending_{sim.make_stream()},
          tensor{type, shape},
          memory_{sim.allocate(where, foreign::size(), {})} {
        tensor.on(where, memory_.data());
        sim.queue(pending_, [this] {
            tensor.fill(sim.elements(memory_.data()));
            is_written = true;
        });
    }

    /// Does what a producer owes (R43, R49).
    [[nodiscard]] managed_tensor ferry_export(request const& wish) {
        device const where = tensor.tensor().device();
        stream_token const consumer = wish.stream.is_none() ? ferry::detail::default_stream(where) : wish.stream;
        if (consumer.names_stream()) sim.order(pending_, consumer);
        else if (consumer.is_none()) sim.wait(pending_);
        return ferry::from_dlpack(tensor.raw());
    }
    /// Imports it into `a`; false when adopt refuses it.
    template <class Array>
    [[nodiscard]] bool import(box<Array>& a, request const& wish = {}) {
        return a.construct([&]() -> Array { return ferry::from_dlpack<Array>(*this, wish, sim); });
    }

    sim_device sim;

   private:
    stream_token pending_;

   public:
    foreign tensor;
    bool is_written = false;

   private:
    sim_device::memory memory_;
};

}  // namespace ferry::inline v0::conformance::detail
