// ferry: copies the elements of one tensor into another.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/space/back_end_ref.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

/// Implements `copy` and `try_copy`.
[[nodiscard]] inline std::int64_t copy_elements(tensor_view const& dst, tensor_view const& src, back_end_ref b,
                                                stream_token on, reporter r) {
    if (!check_support(b, dst.device(), r) || !check_support(b, src.device(), r)) return 0;
    if (!check_stream(on, dst.device(), src.device(), r)) return 0;
    std::int64_t count = 0;
    if (!check_copy(dst, src, count, r)) return 0;
    auto const plan = plan_copy(dst, src, count);
    if (plan.kind == copy_kind::empty) return 0;
    // A default stream without a device belongs to the destination's device, or to the source's for host-accessible
    // destinations.
    on = on.on_device(ignores_id(dst.device().type) ? src.device() : dst.device());
    bool const is_copied = copy_and_wait(b, plan, untyped_data(dst), dst.device(), src.data(), src.device(), on, r);
    return is_copied ? dst.nbytes() : 0;
}

}  // namespace detail

/// Copies the elements of `src` into `dst`.
///
/// Shapes and data types must be equal; strides may differ. Blocks until the data is in `dst`; synchronises the stream
/// `on` only, never a device. Without a stream, no work may be pending on either tensor.
///
/// \param dst    destination; must not overlap `src`
/// \param src    source
/// \param b      back end; required unless both tensors are on devices of type cpu
/// \param on     stream of the device of `dst` or `src`, on which both tensors are ready; not needed for host memory
/// \return       size of the destination's elements in bytes, in a compact layout; `try_copy` returns the size or the
///               error
/// \throws error  errc::rank, shape, dtype, read_only, overflow, null_data or no_backend; errc::stream for a null
///                stream or one of another device (R43, R44); errc::strides when `dst` repeats elements (R29) or the
///                number of strides differs from the rank; errors of the back end
#if FERRY_HAS_EXCEPTIONS
inline std::int64_t copy(tensor_view const& dst, tensor_view const& src, back_end_ref b = host_only,
                         stream_token on = {}, std::source_location where = std::source_location::current()) {
    return detail::copy_elements(dst, src, b, on, {"ferry::copy", where});
}
#endif
[[nodiscard]] inline result<std::int64_t> try_copy(tensor_view const& dst, tensor_view const& src,
                                                   back_end_ref b = host_only, stream_token on = {},
                                                   std::source_location where = std::source_location::current()) {
    return detail::attempt<std::int64_t>("ferry::copy", where,
                                         [&](detail::reporter r) { return detail::copy_elements(dst, src, b, on, r); });
}

}  // namespace FERRY_NAMESPACE
