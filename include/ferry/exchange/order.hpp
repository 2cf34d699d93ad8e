// ferry: orders the streams of an exchange.
#pragma once

#include <ferry/base/stream_token.hpp>
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

}  // namespace ferry::inline v0
