// ferry: the verb that copies elements from one tensor into another.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0 {

/// Copies the elements of `src` into `dst`, whatever the strides; shapes and data types must agree. Returns the bytes
/// of the elements. The data is in `dst` on return, and source and destination must not overlap.
///
/// Off the host a back end is needed, and `on`, a stream on which both are ready, of the device of one of them; the
/// host waits for that stream alone. Without a stream nothing may be pending on either.
///
/// \throws error  errc::shape, dtype, read_only, overflow, null_data, strides (writing through a broadcast, R29, or not
///                one for each extent), stream, no_backend; what the back end reports
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
std::int64_t copy(tensor_view const& dst, tensor_view const& src, BackEnd&& b = host_only, stream_token on = {},
                  std::source_location where = std::source_location::current()) {
    detail::require_reach(b, dst.device(), "ferry::copy", where);
    detail::require_reach(b, src.device(), "ferry::copy", where);
    if (on.is_ambiguous())
        detail::fail(
            errc::stream, "ferry::copy",
            message{"the stream is a null handle: say the legacy default or the per-thread default stream (R44)"},
            where);
    auto const plan = make_copy_plan(dst, src, "ferry::copy", where);
    if (plan.kind == copy_kind::empty) return 0;
    // A default stream without a device is that of the destination, unless any device's would order it.
    on = on.on_device(ignores_id(dst.device().type) ? src.device() : dst.device());  // mutant: cuda_copy_device
    detail::copy_and_wait(b, plan, dst.data(), dst.device(), src.data(), src.device(), on);
    return dst.nbytes();
}

}  // namespace ferry::inline v0
