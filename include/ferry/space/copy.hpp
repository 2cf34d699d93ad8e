// ferry: copies the elements of one tensor into another.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0 {

/// Copies the elements of `src` into `dst`.
///
/// Shapes and data types must be equal; strides may differ. Blocks until the data is in `dst`; synchronises the stream
/// `on` only, never a device. Without a stream, no work may be pending on either tensor.
///
/// \param dst    destination; must not overlap `src`
/// \param src    source
/// \param b      back end; required unless both sides are of device type cpu
/// \param on     stream of the device of `dst` or `src`, on which both are ready; not needed for host memory
/// \param where  source location for errors
/// \return       size of the destination's elements in bytes, in a compact layout
/// \throws error  errc::rank, shape, dtype, read_only, overflow, null_data, stream or no_backend; errc::strides when
///                `dst` repeats elements (R29) or the number of strides is not the rank; errors of the back end
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
std::int64_t copy(tensor_view const& dst, tensor_view const& src, BackEnd&& b = host_only, stream_token on = {},
                  std::source_location where = std::source_location::current()) {
    detail::require_reach(b, dst.device(), "ferry::copy", where);
    detail::require_reach(b, src.device(), "ferry::copy", where);
    if (on.is_ambiguous())
        detail::fail(
            errc::stream, "ferry::copy",
            message{"the stream is a null handle (R44): pass the legacy or the per-thread default stream explicitly"},
            where);
    auto const plan = make_copy_plan(dst, src, "ferry::copy", where);
    if (plan.kind == copy_kind::empty) return 0;
    // A default stream without a device is that of the destination, or of the source for host-accessible destinations.
    on = on.on_device(ignores_id(dst.device().type) ? src.device() : dst.device());  // mutant: cuda_copy_device
    detail::copy_and_wait(b, plan, dst.data(), dst.device(), src.data(), src.device(), on);
    return dst.nbytes();
}

}  // namespace ferry::inline v0
