// ferry: a producer of a tensor on the simulated device, whose elements are written by pending work.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/conformance/detail/box.hpp>
#include <ferry/conformance/detail/foreign.hpp>
#include <ferry/conformance/sim_device.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/negotiate.hpp>

namespace FERRY_NAMESPACE::conformance::detail {

/// A tensor on a simulated device, and its producer. The work that writes the elements is queued, but has not run.
class pending_tensor {
   public:
    pending_tensor(data_type type, shape_view shape, device dev)
        : sim{dev}, pending_{sim.make_stream()}, tensor{type, shape}, memory_{sim.allocate(dev, foreign::size(), {})} {
        tensor.on(dev, memory_.data());
        sim.queue(pending_, [this] {
            tensor.fill(sim.elements(memory_.data()));
            is_written = true;
        });
    }

    /// Exports the tensor, ordered as R43 and R49 require.
    [[nodiscard]] managed_tensor ferry_export(request const& req) {
        device const dev = tensor.tensor().device();
        stream_token const consumer = req.stream.is_none() ? ferry::detail::default_stream(dev) : req.stream;
        if (consumer.names_stream()) sim.order(pending_, consumer);
        else if (consumer.is_none()) sim.wait(pending_);
        return ferry::from_dlpack(tensor.raw());
    }
    /// Imports the tensor into `a`; returns false when adopt throws.
    template <class Array>
    [[nodiscard]] bool import(box<Array>& a, request const& req = {}) {
        return a.construct([&]() -> Array { return ferry::from_dlpack<Array>(*this, req, sim); });
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

}  // namespace FERRY_NAMESPACE::conformance::detail
