// ferry: ordering between CUDA streams, and host waits for a stream (R43).
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/detail/events/thread_event.hpp>
#include <ferry/cuda/detail/toolkit.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>

#include <cstddef>
#include <vector>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Makes the nodes that `to` captures later depend on all nodes that `from` has captured into the same graph. Uses no
/// event. The streams may belong to different devices.
inline void order_in_graph(stream_token from, stream_token to) {
    std::vector<cudaGraphNode_t> nodes;
    std::vector<cudaGraphEdgeData> edges;
    on_device_of(from, [&](cudaStream_t s) {
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        cudaGraphNode_t const* first = nullptr;
        cudaGraphEdgeData const* how = nullptr;
        std::size_t n = 0;
        get_capture(s, status, nullptr, &first, &how, &n);
        nodes.assign(first, first + n);  // the lists are valid until the stream's next call
        edges.resize(n);
        if (how != nullptr) edges.assign(how, how + n);
    });
    if (nodes.empty()) return;
    on_device_of(to, [&](cudaStream_t s) {
        add_dependencies(s, nodes.data(), edges.data(), nodes.size());
    });
}

inline void require_same_capture(unsigned long long from, unsigned long long to) {
    if (from != to)
        ferry::detail::fail(
            errc::capturing, "ferry::cuda::order",
            message{"a stream is being captured, expected both streams in the same capture, or neither: call this "
                    "before or after the capture, or with streams of one capture"});
}

/// Waits again after a failed wait. Reports no error.
inline void wait_again(stream_token on) noexcept {
    try {
        on_device_of(on, [](cudaStream_t s) {
            relaxed_capture_mode const relaxed;
            ignore(cudaStreamSynchronize(s));
        });
    } catch (...) {  // CUDA has shut down
    }
}

}  // namespace detail

/// Makes all work that is queued on `to` after this call wait for the work that is already queued on `from`. Does not
/// block the host.
///
/// Makes no CUDA call when the streams are equal. The streams may belong to different devices. A stream must belong to
/// the device that its token states; this is not checked while the stream is being captured. Two streams of one capture
/// are ordered in the graph. Any other call with a stream that is being captured throws errc::capturing, and does not
/// invalidate the capture.
///
/// \param from  stream whose queued work runs first; if the token identifies no stream, the call does nothing
/// \param to    stream whose later work waits; if the token identifies no stream, the call does nothing
/// \throws error           errc::capturing, stream; errors of CUDA
/// \throws std::bad_alloc  when host memory cannot be allocated
inline void order(stream_token from, stream_token to) {
    if (from == to || !from.names_stream() || !to.names_stream()) return;
    detail::require_stream(from, "ferry::cuda::order");
    detail::require_stream(to, "ferry::cuda::order");
    auto const capture = detail::capture_of(from, "ferry::cuda::order");
    detail::require_same_capture(capture, detail::capture_of(to, "ferry::cuda::order"));
    if (capture != 0) return detail::order_in_graph(from, to);
    if (to.has_device() && !detail::is_default(to)) static_cast<void>(detail::known_stream(to));
    cudaEvent_t const recorded = detail::record(from);
    detail::on_device_of(to, [&](cudaStream_t s) {
        detail::check_driver(detail::driver().stream_wait_event(s, recorded, 0), "cuStreamWaitEvent",
                             [&] { return cudaStreamWaitEvent(s, recorded, 0); });
    });
}

/// Blocks the host until all work queued on a stream has completed.
///
/// \param on  stream to wait for; if the token identifies no stream, the call does nothing
/// \throws error  errc::capturing, stream; errors of CUDA, including those of the queued work
inline void wait(stream_token on) {
    if (!on.names_stream()) return;
    detail::require_stream(on, "ferry::cuda::wait");
    try {
        detail::on_device_of(on, [](cudaStream_t s) {
            detail::require_no_capture(s, "ferry::cuda::wait");
            detail::relaxed_capture_mode const relaxed{detail::driver()};
            check(cudaStreamSynchronize(s), "cudaStreamSynchronize");
        });
    } catch (error const& e) {  // callers may free memory that queued copies write, so no queued work may remain
        if (e.code() != errc::capturing) detail::wait_again(on);
        throw;
    }
}

}  // namespace FERRY_NAMESPACE::cuda
