// ferry: the check of a stream that a caller passes for memory of a device.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>

namespace FERRY_NAMESPACE::detail {

/// Returns whether a stream orders work on memory of a device: a stream of its family, but not the default stream of
/// another device. Memory of type cpu has no streams.
[[nodiscard]] constexpr bool orders_work_on(stream_token on, device d) noexcept {
    return orders(on.family(), d.type) && !on.is_default_of_other(d);
}

[[nodiscard]] FERRY_COLD inline bool report_stream(stream_token on, device d, reporter r) {
    if (on.is_ambiguous())
        return report(r, errc::stream,
                      "the stream is a null handle: pass the legacy default or the per-thread default stream (R44)");
    message text{"stream of another device: the stream belongs to "};
    text << name(on.family());
    if (on.has_device()) text << ":" << on.device_id();
    text << ", and the data is on " << name(d.type) << ":" << d.id << ": pass a stream of " << name(d.type) << ":"
         << d.id << ", or none when no work is pending (R43–R45)";
    return report(r, errc::stream, text);
}

/// Fails with errc::stream unless a stream can order work on memory of one of two devices. Refuses a null handle (R44),
/// a stream of another family, and the default stream of another device.
///
/// Functions that take a stream without a negotiation call this function first. Because no work is pending on memory of
/// type cpu (R46), any stream but a null one is accepted for such memory alone, and is not used. Tokens that
/// identify no stream are accepted.
[[nodiscard]] inline bool check_stream(stream_token on, device d, device other, reporter r) {
    if (!on.names_stream()) return true;
    bool const is_used = uses_streams(d.type) || uses_streams(other.type);
    bool const is_valid = !on.is_ambiguous() && (!is_used || orders_work_on(on, d) || orders_work_on(on, other));
    return is_valid || report_stream(on, uses_streams(d.type) ? d : other, r);
}
[[nodiscard]] inline bool check_stream(stream_token on, device d, reporter r) { return check_stream(on, d, d, r); }

}  // namespace FERRY_NAMESPACE::detail
