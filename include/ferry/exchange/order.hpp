// ferry: orders the streams of an exchange.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>

#include <source_location>

namespace ferry::inline v0 {
namespace detail {

/// Implements `order` and `try_order`.
template <class BackEnd>
[[nodiscard]] bool order_streams(stream_token from, stream_token to, BackEnd& b, reporter r) {
    if (from == to || !from.names_stream() || !to.names_stream()) return true;  // mutant: order_equal_streams
    return perform(r, [&] { return b.order(from, to); });
}

}  // namespace detail

/// Makes later work on `to` wait for all work that is already queued on `from` (R43).
///
/// Does not call the back end when the streams are equal, or when either token identifies no stream. Does not block the
/// host.
///
/// \param from   stream of the producer
/// \param to     stream of the consumer
/// \param b      back end of both streams
/// \param where  source location for errors
/// \return       `try_order` returns success, or the error that `order` throws
/// \throws error  errors of the back end
#if FERRY_HAS_EXCEPTIONS
template <class BackEnd>
    requires back_end<BackEnd>
void order(stream_token from, stream_token to, BackEnd& b,
           std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::order_streams(from, to, b, {"ferry::order", where}));
}
#endif
template <class BackEnd>
    requires back_end<BackEnd>
[[nodiscard]] result<> try_order(stream_token from, stream_token to, BackEnd& b,
                                 std::source_location where = std::source_location::current()) {
    return detail::attempt<void>("ferry::order", where,
                                 [&](detail::reporter r) { return detail::order_streams(from, to, b, r); });
}

}  // namespace ferry::inline v0
