// ferry: a non-owning reference to a CUDA event, for arrays whose data is ready when an event completes.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/stream.hpp>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Makes later work on `on` wait for an event of any device. Without a stream, blocks the host until the event has
/// completed.
inline void wait_for_event(cudaEvent_t e, stream_token on, char const* api) {
    if (!on.names_stream()) return wait(e);
    require_stream(on, api);
    on_device_of(on, [&](cudaStream_t s) {
        require_no_capture(s, api);
        check(cudaStreamWaitEvent(s, e, 0), "cudaStreamWaitEvent");
    });
}

}  // namespace detail

/// A non-owning reference to a CUDA event. `array_traits<T>::ready_on` may return it (`ferry::ready_event`).
class event_ref {
   public:
    /// Constructs a reference.
    ///
    /// \param handle  event, not null; must exist until the caller of `ready_on` has waited for it
    explicit event_ref(cudaEvent_t handle) noexcept : handle_{handle} {}

    /// Makes later work on `on` wait for the event. Without a stream, blocks the host until the event has completed.
    ///
    /// \param on  CUDA stream of any device, or no stream
    /// \throws error  errc::argument for a null handle; errc::stream, capturing; errors of CUDA
    void wait_for_event(device, stream_token on) const {
        if (handle_ == nullptr)
            ferry::detail::fail(errc::argument, "ferry::cuda::event_ref",
                                message{"the cudaEvent_t is null: return an event from array_traits<T>::ready_on"});
        detail::wait_for_event(handle_, on, "ferry::cuda::event_ref");
    }

   private:
    cudaEvent_t handle_;
};

}  // namespace FERRY_NAMESPACE::cuda
