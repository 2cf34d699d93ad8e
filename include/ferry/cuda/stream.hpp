// ferry: CUDA streams, borrowed and owned.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/toolkit.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// A non-owning reference to a stream. Not constructible from integers or nullptr, which are ambiguous (R44); use
/// `legacy_default()` or `per_thread_default()`. Converts to stream_token. Copyable; as thread-safe as a pointer.
class stream_ref {
   public:
    /// Refers to a stream.
    ///
    /// \param handle  stream; must exist as long as this object is used
    stream_ref(cudaStream_t handle) noexcept : handle_{handle} {}
    // clang-format off
    stream_ref(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: use stream_ref::legacy_default() or per_thread_default()");
    // clang-format on
    template <std::integral Int>
    // clang-format off
    stream_ref(Int) FERRY_DELETED("an integer is not a stream: use stream_ref::legacy_default() or per_thread_default(), or pass the cudaStream_t");
    // clang-format on

    /// Returns the legacy default stream of the current device.
    [[nodiscard]] static stream_ref legacy_default() noexcept { return {cudaStreamLegacy}; }
    /// Returns the per-thread default stream of the current device, which differs between the threads that use the
    /// reference.
    [[nodiscard]] static stream_ref per_thread_default() noexcept { return {cudaStreamPerThread}; }

    /// Returns the handle.
    [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
    /// Returns the stream as a token. The token of a default stream has no device. Exchanges use the device of the
    /// tensor, and functions without a tensor use device 0, not the current device. Exchanges reject the token of a
    /// null handle.
    operator stream_token() const noexcept { return stream_token::cuda(handle_); }

    friend bool operator==(stream_ref, stream_ref) = default;

   private:
    cudaStream_t handle_;
};

/// An owned non-blocking stream, which does not synchronise with the legacy default stream. Move-only.
class stream {
   public:
    /// Creates a stream.
    ///
    /// \param device_id  device of the stream
    /// \throws error  errc::device, out_of_memory; errors of CUDA
    explicit stream(std::int32_t device_id = 0) {
        device_guard const on{device_id};
        check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    }
    stream(stream&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
    stream& operator=(stream&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    /// Destroys the stream without waiting for its queued work, which still runs.
    ~stream() {
        if (handle_ != nullptr && cudaStreamDestroy(handle_) != cudaSuccess) static_cast<void>(cudaGetLastError());
    }

    /// Returns the handle.
    [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
    operator stream_ref() const noexcept { return {handle_}; }
    operator stream_token() const noexcept { return stream_ref{handle_}; }
    /// Blocks the host until all queued work has completed.
    ///
    /// \throws error  errc::context_lost, capturing; errors of CUDA, including those of the queued work
    void wait() const { check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

   private:
    cudaStream_t handle_ = nullptr;
};

namespace detail {

/// Returns the handle of a token; 1 and 2 are CUDA's handles of the default streams.
[[nodiscard]] inline cudaStream_t handle_of(stream_token t) noexcept {
    return reinterpret_cast<cudaStream_t>(t.native_handle());
}

[[nodiscard]] constexpr bool is_default(stream_token t) noexcept { return t.which() != stream_token::kind::handle; }

/// Throws for tokens that do not name a CUDA stream, which are a null handle, because it is ambiguous, and a stream of
/// another device type.
inline void require_stream(stream_token t, char const* api) {
    if (t.is_ambiguous())
        ferry::detail::fail(
            errc::stream, api,
            message{"the stream is a null handle: pass the legacy default or the per-thread default stream (R44)"});
    if (t.family() != device_type::cuda)
        ferry::detail::fail(errc::stream, api,
                            message{"the stream belongs to device type "}
                                << name(t.family()) << ", expected cuda (R43): pass a CUDA stream");
}

/// Returns the device of a stream, which must not be in capture mode, because the query would fail and invalidate the
/// capture.
[[nodiscard]] inline std::int32_t device_of_uncaptured(stream_token t) {
    if (is_default(t)) return t.device_id();
    auto const& api = driver();
    relaxed_capture_mode const relaxed{api};
    int id = 0;
    check_driver(api.get_stream_device(handle_of(t), &id), "cuStreamGetDevice",
                 [&] { return get_stream_device(handle_of(t), &id); });
    return id;
}

[[noreturn]] FERRY_COLD inline void fail_other_device(std::int32_t stream_id, std::int32_t data_id, char const* api) {
    ferry::detail::fail(errc::stream, api,
                        message{"stream of another device: the stream belongs to cuda:"}
                            << stream_id << ", the data is on cuda:" << data_id << ": pass a stream of cuda:" << data_id
                            << ", ordered after this stream if needed (ferry::cuda::order)");
}

/// Throws when a token states a device other than `id`, the device of its stream.
inline void require_expected_device(stream_token t, std::int32_t id, char const* api) {
    if (t.has_device() && t.device_id() != id) fail_other_device(id, t.device_id(), api);
}

/// Returns the device of a stream. Throws for streams that are being captured, and for tokens that state another
/// device. Default streams are checked for a capture by `require_uncaptured_default`, once their device is current.
[[nodiscard]] inline std::int32_t device_of(stream_token t, char const* api) {
    if (!is_default(t)) require_no_capture(handle_of(t), api);
    std::int32_t const id = device_of_uncaptured(t);
    require_expected_device(t, id, api);
    return id;
}

/// Throws if a default stream is being captured, which `device_of` does not check. The device of the stream must be
/// current.
inline void require_uncaptured_default(stream_token t, char const* api) {
    if (is_default(t)) require_no_capture(handle_of(t), api);
}

/// Calls `f(handle)`. For a default stream, makes its device current; for other streams, the current device is
/// irrelevant.
template <class Function>
auto on_device_of(stream_token t, Function&& f) {
    if (!is_default(t)) return f(handle_of(t));
    device_guard const on{t.device_id()};
    return f(handle_of(t));
}

/// Returns the id of the capture that a stream of any device participates in, or 0.
[[nodiscard]] inline unsigned long long capture_of(stream_token t, char const* api) {
    return on_device_of(t, [api](cudaStream_t s) { return capture_of(s, api); });
}

}  // namespace detail
}  // namespace FERRY_NAMESPACE::cuda
