// ferry: CUDA streams, borrowed and owned.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ferry::inline v0::cuda {

/// A stream that somebody else owns. Not made from an integer or nullptr, which would be ambiguous (R44): say
/// `legacy_default()` or `per_thread_default()`. Converts to the token that exchanges take. A value; thread-safe as a
/// pointer.
class stream_ref {
   public:
    stream_ref(cudaStream_t handle) noexcept : handle_{handle} {}
    // clang-format off
    stream_ref(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: say stream_ref::legacy_default() or per_thread_default()");
    // clang-format on
    template <std::integral Int>
    // clang-format off
    stream_ref(Int) FERRY_DELETED("streams are not integers: say stream_ref::legacy_default(), per_thread_default() or pass the cudaStream_t");
    // clang-format on

    [[nodiscard]] static stream_ref legacy_default() noexcept { return {cudaStreamLegacy}; }
    [[nodiscard]] static stream_ref per_thread_default() noexcept { return {cudaStreamPerThread}; }

    [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
    /// A null handle gives a token that every exchange refuses.
    operator stream_token() const noexcept { return stream_token::cuda(handle_); }

    friend bool operator==(stream_ref, stream_ref) = default;

   private:
    cudaStream_t handle_;
};

/// An owned stream that does not synchronise with the legacy default stream. Move-only.
class stream {
   public:
    /// \throws error  errc::device, no_driver, out_of_memory
    explicit stream(std::int32_t device_id = 0) {
        device_guard const on{device_id};
        check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
    stream(stream&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
    stream& operator=(stream&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    /// Work that is queued still runs.
    ~stream() {
        if (handle_ != nullptr && cudaStreamDestroy(handle_) != cudaSuccess) static_cast<void>(cudaGetLastError());
    }

    [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
    operator stream_ref() const noexcept { return {handle_}; }
    operator stream_token() const noexcept { return stream_ref{handle_}; }
    /// Blocks the host until all that is queued has run. \throws error  what the driver reports, errc::context_lost
    void wait() const { check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

   private:
    cudaStream_t handle_ = nullptr;
};

namespace detail {

/// The handle that a token stands for: 1 and 2 are CUDA's own names of the default streams.
[[nodiscard]] inline cudaStream_t handle_of(stream_token t) noexcept {
    return reinterpret_cast<cudaStream_t>(t.native_handle());
}

[[nodiscard]] constexpr bool is_default(stream_token t) noexcept { return t.which() != stream_token::kind::handle; }

/// Refuses what is no CUDA stream: a null handle, which could be either default stream, and streams of other devices.
inline void require_stream(stream_token t, char const* api) {
    if (t.is_ambiguous())
        ferry::detail::fail(
            errc::stream, api,
            message{"the stream is a null handle: say the legacy default or the per-thread default stream (R44)"});
    if (t.family() != device_type::cuda)
        ferry::detail::fail(
            errc::stream, api,
            message{"this is a stream of "} << name(t.family()) << ", and CUDA needs one of its own (R43)");
}

/// The device that a stream's work runs on. Not of a stream that is being captured: CUDA refuses the question, and
/// spoils the capture for having been asked, so that callers look at the capture first.
[[nodiscard]] inline std::int32_t device_of_free(stream_token t) {
    if (is_default(t)) return t.device_id();
    auto const& api = driver();
    beside_captures const quietly{api};
    int id = 0;
    check_driver(api.stream_device(handle_of(t), &id), "cuStreamGetDevice",
                 [&] { return cudaStreamGetDevice(handle_of(t), &id); });
    return id;
}

[[noreturn]] FERRY_COLD inline void fail_other_device(std::int32_t stream_id, std::int32_t data_id, char const* api) {
    ferry::detail::fail(errc::stream, api,
                        message{"stream of another device: the stream is of cuda:"}
                            << stream_id << ", the data on cuda:" << data_id << ": pass a stream of cuda:" << data_id
                            << ", ordered after this one where that is needed (ferry::cuda::order)");
}

/// Refuses a stream, of device `id`, that must be of another one.
inline void require_said_device(stream_token t, std::int32_t id, char const* api) {
    if (t.has_device() && t.device_id() != id) fail_other_device(id, t.device_id(), api);
}

/// The device that a stream's work runs on. Refuses streams that are being captured, and those that must be of another
/// device. Default streams are asked for a capture by whoever makes their device current.
[[nodiscard]] inline std::int32_t device_of(stream_token t, char const* api) {
    if (!is_default(t)) require_no_capture(handle_of(t), api);  // mutant: cuda_device_capture
    std::int32_t const id = device_of_free(t);
    require_said_device(t, id, api);  // mutant: cuda_device_said
    return id;
}

/// What remains to be asked when `device_of` has said the device and it is current: whether a default stream is
/// captured.
inline void require_free_default(stream_token t, char const* api) {
    if (is_default(t)) require_no_capture(handle_of(t), api);
}

/// `f(handle)`, with the device of a default stream current; all other streams know theirs.
template <class Function>
auto on_device_of(stream_token t, Function&& f) {
    if (!is_default(t)) return f(handle_of(t));
    device_guard const on{t.device_id()};
    return f(handle_of(t));
}

/// The capture that a stream takes part in, on whichever device it is. As `capture_of`.
[[nodiscard]] inline unsigned long long capture_of(stream_token t, char const* api) {
    return on_device_of(t, [api](cudaStream_t s) { return capture_of(s, api); });
}

}  // namespace detail
}  // namespace ferry::inline v0::cuda
