// ferry: the waits of an exchange, in one place.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/space/back_end.hpp>

namespace ferry::inline v0 {

/// Makes work that is queued on `to` later run after all that is queued on `from` now (R43). Equal streams, or a side
/// on which nothing runs, cost nothing. Does not block the host.
///
/// \throws  what the back end reports
template <class BackEnd>
    requires back_end<BackEnd>
void order(stream_token from, stream_token to, BackEnd& b) {
    if (from == to || !from.names_stream() || !to.names_stream()) return;  // mutant: order_equal_streams
    b.order(from, to);
}

namespace detail {

/// Carries out the wait of a decision to share, for a tensor that is ready on `ready_on`.
template <class BackEnd>
void apply_wait(decision const& d, stream_token ready_on, BackEnd& b) {
    switch (d.how) {
        case wait::none: return;                                    // mutant: settle_none
        case wait::order: ferry::order(ready_on, d.on, b); return;  // mutant: settle_order
        case wait::host: b.wait(d.on); return;                      // mutant: settle_host
    }
}

}  // namespace detail
}  // namespace ferry::inline v0
