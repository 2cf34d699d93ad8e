// ferry: the waits of an exchange.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/space/back_end.hpp>

namespace ferry::inline v0 {

/// Makes work queued on `to` after this call run after the work queued on `from` before this call (R43).
///
/// Does not call the back end when the streams are equal, or when either token identifies no stream. Does not block the
/// host.
///
/// \param from  stream of the producer
/// \param to    stream of the consumer
/// \param b     back end of both streams
/// \throws error  errors of the back end
template <class BackEnd>
    requires back_end<BackEnd>
void order(stream_token from, stream_token to, BackEnd& b) {
    if (from == to || !from.names_stream() || !to.names_stream()) return;  // mutant: order_equal_streams
    b.order(from, to);
}

namespace detail {

/// Performs the wait of a decision to share a tensor that is ready on `ready_on`.
template <class BackEnd>
void apply_wait(decision const& d, stream_token ready_on, BackEnd& b) {
    switch (d.how) {
        case wait::none: return;                                    // mutant: apply_wait_none
        case wait::order: ferry::order(ready_on, d.on, b); return;  // mutant: apply_wait_order
        case wait::host: b.wait(d.on); return;                      // mutant: apply_wait_host
    }
}

}  // namespace detail
}  // namespace ferry::inline v0
