// minitensor: tensors that leave a device when its memory is needed, and tensors that are copied when they are written.
#pragma once

#include "minitensor_ferry.hpp"

#include <ferry/lease.hpp>
#include <minitensor/minitensor.hpp>

#include <utility>

namespace mt {

// [lease]
using traits = ferry::array_traits<tensor>;
inline ferry::spillable spill(ferry::spill_manager& manager, tensor t) {
    auto const on = traits::ready_on(t);
    return manager.adopt(ferry::to_dlpack(std::move(t)), on);
}
inline tensor use(ferry::managed_tensor lease, ferry::stream_token on) { return traits::adopt(std::move(lease), on); }
inline auto stream_on(ferry::device d) { return traits::current_stream(d); }
inline tensor read(auto const& t, ferry::device d) { return use(t.read(stream_on(d)), stream_on(d)); }
inline tensor write(auto& t, ferry::device d) { return use(t.write(stream_on(d)), stream_on(d)); }
// [/lease]

}  // namespace mt
