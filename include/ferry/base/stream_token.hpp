// ferry: the stream of an exchange, as a type instead of an integer.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The types to which cudaStream_t and hipStream_t point, as the SDKs declare them.
struct CUstream_st;
struct ihipStream_t;

namespace FERRY_NAMESPACE {

/// Identifies the stream of an exchange (R43–R46): no stream, no synchronisation, the legacy default stream, the
/// per-thread default stream, or a stream handle. The last three belong to a family of devices: CUDA, ROCm, or another
/// device type. Does not own the stream.
///
/// A literal 0 or nullptr is ambiguous and does not compile; exchanges throw errc::stream for a handle that is null at
/// run time. `from_cuda_handle` and `rocm_handle` convert the stream numbers of the Python protocol.
///
/// Each device has its own default streams. A token of a default stream may omit the device. Exchanges then use the
/// device of the tensor; functions that take a stream but no tensor use device 0.
class stream_token {
   public:
    /// Kind of a token.
    enum class kind : std::uint8_t { none, no_sync, legacy_default, per_thread_default, handle };

    /// Constructs the token for no stream. Host memory has no streams (R46). In a request for CUDA or ROCm device
    /// memory, the token means the default stream (R44, R45). In a request for other memory, it means that the data is
    /// complete when the exchange returns (R49).
    constexpr stream_token() = default;

    // clang-format off
    stream_token(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: pass stream_token::cuda_legacy_default(), cuda_per_thread_default() or rocm_default(), or {} for no stream");
    template <std::integral Int>
    stream_token(Int) FERRY_DELETED("streams are not integers: pass stream_token::cuda_legacy_default(), stream_token::cuda(the cudaStream_t), or {} for no stream");
    template <class Stream>
    stream_token(Stream*) FERRY_DELETED("the family of this stream is unknown: pass stream_token::cuda(the cudaStream_t), stream_token::rocm(the hipStream_t), or stream_token::from_cuda_handle(a void*)");
    // clang-format on

    /// Returns the token for no synchronisation by the producer; the consumer orders its work itself (-1 in Python).
    ///
    /// \return  token of kind no_sync
    [[nodiscard]] static constexpr stream_token no_sync() noexcept { return {kind::no_sync, device_type::cpu, 0}; }

    /// Returns the token of CUDA's legacy default stream.
    ///
    /// \return  token without a device; exchanges add the device of the tensor
    [[nodiscard]] static constexpr stream_token cuda_legacy_default() noexcept {
        return {kind::legacy_default, device_type::cuda, 1};
    }
    /// Returns the token of a device's legacy default stream.
    ///
    /// \param device_id  id of the device; an exchange of data on another device throws errc::stream
    /// \return           token of that stream
    [[nodiscard]] static constexpr stream_token cuda_legacy_default(std::int32_t device_id) noexcept {
        return {kind::legacy_default, device_type::cuda, 1, device_id};
    }
    /// Returns the token of CUDA's per-thread default stream, which differs between the threads that use the token.
    ///
    /// \return  token without a device; exchanges add the device of the tensor
    [[nodiscard]] static constexpr stream_token cuda_per_thread_default() noexcept {
        return {kind::per_thread_default, device_type::cuda, 2};
    }
    /// Returns the token of a device's per-thread default stream, which differs between the threads that use the token.
    ///
    /// \param device_id  id of the device; an exchange of data on another device throws errc::stream
    /// \return           token of that stream
    [[nodiscard]] static constexpr stream_token cuda_per_thread_default(std::int32_t device_id) noexcept {
        return {kind::per_thread_default, device_type::cuda, 2, device_id};
    }
    /// Returns the token of a CUDA stream.
    ///
    /// \param handle  cudaStream_t, including cudaStreamLegacy and cudaStreamPerThread; remains owned by the caller
    /// \return        token of that stream; for null, a token for which `is_ambiguous()` is true
    [[nodiscard]] static stream_token cuda(CUstream_st* handle) noexcept {
        return from_cuda_handle(reinterpret_cast<std::uintptr_t>(handle));
    }
    // clang-format off
    template <class Other>
    static stream_token cuda(Other*) FERRY_DELETED("the pointer is not a cudaStream_t: if it is a CUDA stream as a void*, call from_cuda_handle");
    static stream_token cuda(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: use cuda_legacy_default() or cuda_per_thread_default()");
    // clang-format on
    template <std::integral Int>
    // clang-format off
    static stream_token cuda(Int) FERRY_DELETED("streams are not integers: use cuda_legacy_default() or cuda_per_thread_default(), or pass the cudaStream_t");
    // clang-format on

    /// Returns the token of ROCm's default stream.
    ///
    /// \return  token without a device; exchanges add the device of the tensor
    [[nodiscard]] static constexpr stream_token rocm_default() noexcept {
        return {kind::legacy_default, device_type::rocm, 0};
    }
    /// Returns the token of a ROCm device's default stream.
    ///
    /// \param device_id  id of the device; an exchange of data on another device throws errc::stream
    /// \return           token of that stream
    [[nodiscard]] static constexpr stream_token rocm_default(std::int32_t device_id) noexcept {
        return {kind::legacy_default, device_type::rocm, 0, device_id};
    }
    /// Returns the token of a ROCm stream.
    ///
    /// \param handle  hipStream_t (R45); remains owned by the caller
    /// \return        token of that stream; for null, a token for which `is_ambiguous()` is true
    [[nodiscard]] static stream_token rocm(ihipStream_t* handle) noexcept {
        return rocm_handle(reinterpret_cast<std::uintptr_t>(handle));
    }
    // clang-format off
    template <class Other>
    static stream_token rocm(Other*) FERRY_DELETED("the pointer is not a hipStream_t: if it is a ROCm stream as a void*, call rocm_handle");
    // clang-format on
    static stream_token rocm(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: use rocm_default()");
    template <std::integral Int>
    static stream_token rocm(Int) FERRY_DELETED("streams are not integers: use rocm_default() or pass the hipStream_t");

    /// Returns the token of a stream that is neither a CUDA nor a ROCm stream.
    ///
    /// \param type    device type
    /// \param handle  native handle of the stream; remains owned by the caller
    /// \return        token of that stream; for 0, a token for which `is_ambiguous()` is true
    [[nodiscard]] static constexpr stream_token native(device_type type, std::uintptr_t handle) noexcept {
        return {kind::handle, type, handle};
    }
    /// Converts a CUDA stream number of the array API to a token (R44).
    ///
    /// \param number  1 for the legacy default stream, 2 for the per-thread default stream, otherwise a cudaStream_t
    /// \return        token of that stream; for 0, a token for which `is_ambiguous()` is true
    [[nodiscard]] static constexpr stream_token from_cuda_handle(std::uintptr_t number) noexcept {
        if (number == 1) return cuda_legacy_default();
        if (number == 2) return cuda_per_thread_default();
        return {kind::handle, device_type::cuda, number};
    }
    /// Converts a cudaStream_t that an interface passes as a void*.
    ///
    /// \param handle  stream; remains owned by the caller
    /// \return        token of that stream; for null, a token for which `is_ambiguous()` is true
    template <std::same_as<void> Void>
    [[nodiscard]] static stream_token from_cuda_handle(Void* handle) noexcept {
        return from_cuda_handle(reinterpret_cast<std::uintptr_t>(handle));
    }

    /// Converts a ROCm stream to a token (R45).
    ///
    /// \param number  hipStream_t as a number
    /// \return        token of that stream; for 0, a token for which `is_ambiguous()` is true
    [[nodiscard]] static constexpr stream_token rocm_handle(std::uintptr_t number) noexcept {
        return {kind::handle, device_type::rocm, number};
    }
    /// Converts a hipStream_t that an interface passes as a void*.
    ///
    /// \param handle  stream; remains owned by the caller
    /// \return        token of that stream; for null, a token for which `is_ambiguous()` is true
    template <std::same_as<void> Void>
    [[nodiscard]] static stream_token rocm_handle(Void* handle) noexcept {
        return rocm_handle(reinterpret_cast<std::uintptr_t>(handle));
    }

    /// Returns the kind of the token.
    [[nodiscard]] constexpr kind which() const noexcept { return kind_; }
    /// Returns the family of devices to which the stream belongs.
    ///
    /// \return  device type of the family, such as cuda; cpu for no stream and no_sync()
    [[nodiscard]] constexpr device_type family() const noexcept { return static_cast<device_type>(family_); }
    /// Returns the native handle.
    ///
    /// \return  handle; 1 or 2 for the default streams of CUDA; 0 for the other tokens without a handle
    [[nodiscard]] constexpr std::uintptr_t native_handle() const noexcept { return handle_; }

    /// Returns whether the token identifies a default stream. Each device has its own default streams.
    [[nodiscard]] constexpr bool is_default() const noexcept {
        return kind_ == kind::legacy_default || kind_ == kind::per_thread_default;
    }
    /// Returns whether the token contains a device: the device of a default stream, or the device to which a handle
    /// must belong (`bound_to`).
    [[nodiscard]] constexpr bool has_device() const noexcept { return has_device_; }
    /// Returns the id of the token's device.
    ///
    /// \return  id; 0 without a device
    [[nodiscard]] constexpr std::int32_t device_id() const noexcept { return device_id_; }
    /// Adds a device to the token of a default stream, if the token has no device.
    ///
    /// \param d  device; host-accessible devices are not added, because streams of any device can order work on their
    ///           memory
    /// \return   token of the default stream of `d`; an unchanged copy if no device was added
    [[nodiscard]] constexpr stream_token on_device(device d) const noexcept {
        return is_default() ? bound_to(d) : *this;
    }
    /// Adds a device to a token that identifies a stream but has no device. Back ends throw when the stream of a handle
    /// belongs to a device other than the added one.
    ///
    /// \param d  device; host-accessible devices are not added
    /// \return   token of the same stream
    [[nodiscard]] constexpr stream_token bound_to(device d) const noexcept {
        auto copy = *this;
        if (!names_stream() || has_device_ || ignores_id(d.type)) return copy;
        copy.device_id_ = d.id;
        copy.has_device_ = true;
        return copy;
    }
    /// Removes the device. A conversion to a stream number and back has the same effect.
    ///
    /// \return  token of the same stream without a device
    [[nodiscard]] constexpr stream_token without_device() const noexcept {
        auto copy = *this;
        copy.device_id_ = 0;
        copy.has_device_ = false;
        return copy;
    }
    /// Returns whether the token identifies the default stream of another device.
    ///
    /// \param d  device
    /// \return   true for a default stream of a device other than `d`; false for handles, for tokens without a device,
    ///           and when `d` is host-accessible
    [[nodiscard]] constexpr bool is_default_of_other(device d) const noexcept {
        return is_default() && has_device_ && !ignores_id(d.type) && device_id_ != d.id;
    }

    /// Returns whether the token represents no stream.
    [[nodiscard]] constexpr bool is_none() const noexcept { return kind_ == kind::none; }
    /// Returns whether the token requests no synchronisation.
    [[nodiscard]] constexpr bool is_no_sync() const noexcept { return kind_ == kind::no_sync; }
    /// Returns whether the token identifies a stream: a default stream or a handle. Also true for a null handle
    /// (`is_ambiguous`).
    [[nodiscard]] constexpr bool names_stream() const noexcept { return kind_ > kind::no_sync; }
    /// Returns whether the token is a null handle, which may mean either default stream (R44).
    [[nodiscard]] constexpr bool is_ambiguous() const noexcept { return kind_ == kind::handle && handle_ == 0; }

    /// Returns whether two tokens identify the same stream. A default stream without a device equals the default stream
    /// of device 0. Ignores the devices of handles.
    friend constexpr bool operator==(stream_token const& a, stream_token const& b) noexcept {
        return a.kind_ == b.kind_ && a.family_ == b.family_ && a.handle_ == b.handle_ &&
               (a.device_id_ == b.device_id_ || !a.is_default());
    }

   private:
    constexpr stream_token(kind k, device_type f, std::uintptr_t h) noexcept
        : kind_{k}, family_{static_cast<std::int16_t>(f)}, handle_{h} {}
    constexpr stream_token(kind k, device_type f, std::uintptr_t h, std::int32_t device_id) noexcept
        : kind_{k}, has_device_{true}, family_{static_cast<std::int16_t>(f)}, device_id_{device_id}, handle_{h} {}

    kind kind_ = kind::none;
    bool has_device_ = false;
    std::int16_t family_ = static_cast<std::int16_t>(device_type::cpu);
    std::int32_t device_id_ = 0;
    std::uintptr_t handle_ = 0;
};

/// Returns whether the streams of a family order work on memory of a device type.
///
/// \param family  device type of the streams
/// \param type    device type of the memory
/// \return        `uses_cuda_streams(type)` for CUDA streams, `uses_rocm_streams(type)` for ROCm streams; for streams
///                of another family, true when the types are equal and not cpu
[[nodiscard]] constexpr bool orders(device_type family, device_type type) noexcept {
    if (family == device_type::cuda) return uses_cuda_streams(type);
    if (family == device_type::rocm) return uses_rocm_streams(type);
    return family == type && uses_streams(type);
}

/// Returns whether an exchange of memory of a device type accepts a token.
///
/// \param token  stream token
/// \param type   device type of the memory
/// \return       true for the token for no stream and for no_sync(), including on the host (R46), and for a stream of
///               a family that orders work on such memory; false for an ambiguous token
[[nodiscard]] constexpr bool fits(stream_token token, device_type type) noexcept {
    if (!token.names_stream()) return true;
    return orders(token.family(), type) && !token.is_ambiguous();
}

/// The token for data without pending work. Every stream and the host may use such data immediately.
inline constexpr stream_token already_ready = stream_token::no_sync();

}  // namespace FERRY_NAMESPACE
