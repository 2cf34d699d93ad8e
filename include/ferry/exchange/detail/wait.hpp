// ferry: performs the wait of a decision.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>

namespace FERRY_NAMESPACE::detail {

/// Makes the stream of the decision wait for `ready_on`, the stream on which data on `from` is ready.
template <class BackEnd>
[[nodiscard]] bool order_after(stream_token ready_on, device from, decision const& d, BackEnd& b, reporter r) {
    return order_streams(ready_on.bound_to(from), d.on, b, r);
}

/// Performs the wait of a decision to share data on `from` that is ready on `ready_on`.
template <class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE bool wait_to_share(stream_token ready_on, device from, decision const& d, BackEnd& b,
                                                     reporter r) {
    if (d.wait == wait::order && !order_after(ready_on, from, d, b, r)) return false;
    return d.wait != wait::host || perform(r, [&] { return b.wait(d.on); });
}

}  // namespace FERRY_NAMESPACE::detail
