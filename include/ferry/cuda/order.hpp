// ferry: the waits between CUDA streams, and of the host for one of them (R43).
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/thread_event.hpp>

#include <cstddef>
#include <vector>

namespace ferry::inline v0::cuda {
namespace detail {

/// Makes what `to` captures later depend on all that `from` has captured into the same graph. Neither events nor
/// devices take part.
inline void order_in_graph(stream_token from, stream_token to) {
    std::vector<cudaGraphNode_t> nodes;
    std::vector<cudaGraphEdgeData> edges;
    on_device_of(from, [&](cudaStream_t s) {
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        cudaGraphNode_t const* first = nullptr;
        cudaGraphEdgeData const* how = nullptr;
        std::size_t n = 0;
        check(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &first, &how, &n), "cudaStreamGetCaptureInfo");
        nodes.assign(first, first + n);  // the stream's next call ends the lists
        edges.resize(n);
        if (how != nullptr) edges.assign(how, how + n);
    });
    if (nodes.empty()) return;
    on_device_of(to, [&](cudaStream_t s) {
        // mutant: cuda_order_in_graph
        check(cudaStreamUpdateCaptureDependencies(s, nodes.data(), edges.data(), nodes.size(),
                                                  cudaStreamAddCaptureDependencies),
              "cudaStreamUpdateCaptureDependencies");
    });
}

inline void require_same_capture(unsigned long long from, unsigned long long to) {
    if (from != to)  // mutant: cuda_order_same_capture
        ferry::detail::fail(
            errc::capturing, "ferry::cuda::order",
            message{"one of the streams is being captured, and not both into the same graph: exchange before or after "
                    "the capture, or between streams of it"});
}

/// The second wait for a stream, when the first has failed. Says nothing.
inline void wait_again(stream_token on) noexcept {
    try {
        on_device_of(on, [](cudaStream_t s) {  // mutant: cuda_wait_failed_device
            beside_captures const quietly;
            ignore(cudaStreamSynchronize(s));  // mutant: cuda_wait_failed
        });
    } catch (...) {  // CUDA is gone, or the device
    }
}

}  // namespace detail

/// Makes work queued on `to` later run after all that is queued on `from` now: an event recorded and waited for. Equal
/// streams cost no call. The streams may be of different devices; one whose token says a device must be of that one,
/// but while it is being captured, when it cannot be asked. Never blocks the host.
///
/// Streams under capture are ordered when both belong to the same capture; otherwise the call is refused before it
/// disturbs one. \throws error  errc::capturing, stream; what the driver reports
inline void order(stream_token from, stream_token to) {
    if (from == to || !from.names_stream() || !to.names_stream()) return;
    detail::require_stream(from, "ferry::cuda::order");
    detail::require_stream(to, "ferry::cuda::order");
    auto const capture = detail::capture_of(from, "ferry::cuda::order");
    detail::require_same_capture(capture, detail::capture_of(to, "ferry::cuda::order"));
    if (capture != 0) return detail::order_in_graph(from, to);
    // mutant: cuda_order_to_device
    if (to.has_device() && !detail::is_default(to)) static_cast<void>(detail::known_stream(to));
    cudaEvent_t const recorded = detail::record(from);
    detail::on_device_of(to, [&](cudaStream_t s) {
        // mutant: cuda_order_wait
        detail::check_driver(detail::driver().stream_wait_event(s, recorded, 0), "cuStreamWaitEvent",
                             [&] { return cudaStreamWaitEvent(s, recorded, 0); });
    });
}

/// Blocks the host until all that is queued on a stream has run. \throws error  errc::capturing, stream; what the
/// driver reports
inline void wait(stream_token on) {
    if (!on.names_stream()) return;
    detail::require_stream(on, "ferry::cuda::wait");
    try {
        detail::on_device_of(on, [](cudaStream_t s) {
            detail::require_no_capture(s, "ferry::cuda::wait");  // mutant: cuda_wait_capture
            detail::beside_captures const quietly{detail::driver()};
            check(cudaStreamSynchronize(s), "cudaStreamSynchronize");  // mutant: cuda_wait
        });
    } catch (error const& e) {  // what a copy would have written may be freed: nothing queued there may run any more
        if (e.code() != errc::capturing) detail::wait_again(on);
        throw;
    }
}

}  // namespace ferry::inline v0::cuda
