// ferry: the stream of an exchange, as a type instead of an integer.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ferry::inline v0 {

/// Identifies the stream of a handshake (R43–R46): none, no synchronisation, the legacy default stream, the per-thread
/// default stream, or a handle; the last three for one family of devices. Does not own the stream.
///
/// A literal 0 or nullptr is ambiguous and does not compile; for a handle that is null at run time every exchange
/// throws errc::stream. Integers are used at the Python border only.
///
/// Each device has default streams. A token of a default stream may omit the device: exchanges then use the device of
/// the tensor, and functions that take a stream without a tensor use device 0. Tokens of the same stream compare equal.
class stream_token {
   public:
    enum class kind : std::uint8_t { none, no_sync, legacy_default, per_thread_default, handle };

    /// No stream; the only token for host memory. For a device with streams it means the default stream or complete
    /// data, according to the rules of the device (R44, R46, R49).
    constexpr stream_token() = default;

    /// No synchronisation by the producer: the consumer orders its work itself (-1 in Python).
    [[nodiscard]] static constexpr stream_token no_sync() noexcept { return {kind::no_sync, device_type::cpu, 0}; }

    /// \return  CUDA's legacy default stream of the device of the exchange
    [[nodiscard]] static constexpr stream_token cuda_legacy_default() noexcept {
        return {kind::legacy_default, device_type::cuda, 1};
    }
    /// \param device_id  device; an exchange of data on another device throws errc::stream
    /// \return           CUDA's legacy default stream of that device
    [[nodiscard]] static constexpr stream_token cuda_legacy_default(std::int32_t device_id) noexcept {
        return {kind::legacy_default, device_type::cuda, 1, device_id};
    }
    /// \return  CUDA's per-thread default stream of the calling thread, of the device of the exchange
    [[nodiscard]] static constexpr stream_token cuda_per_thread_default() noexcept {
        return {kind::per_thread_default, device_type::cuda, 2};
    }
    /// \param device_id  device; an exchange of data on another device throws errc::stream
    /// \return           CUDA's per-thread default stream of the calling thread, of that device
    [[nodiscard]] static constexpr stream_token cuda_per_thread_default(std::int32_t device_id) noexcept {
        return {kind::per_thread_default, device_type::cuda, 2, device_id};
    }
    /// \param handle  cudaStream_t, cudaStreamLegacy and cudaStreamPerThread included; remains owned by the caller
    /// \return        token of that stream
    template <class Stream>
        requires std::is_class_v<Stream>
    [[nodiscard]] static stream_token cuda(Stream* handle) noexcept {
        return from_cuda_handle(reinterpret_cast<std::uintptr_t>(handle));
    }
    // clang-format off
    static stream_token cuda(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: use cuda_legacy_default() or cuda_per_thread_default()");
    // clang-format on
    template <std::integral Int>
    // clang-format off
    static stream_token cuda(Int) FERRY_DELETED("streams are not integers: use cuda_legacy_default(), cuda_per_thread_default() or pass the cudaStream_t");
    // clang-format on

    /// \return  ROCm's default stream of the device of the exchange
    [[nodiscard]] static constexpr stream_token rocm_default() noexcept {
        return {kind::legacy_default, device_type::rocm, 0};
    }
    /// \param device_id  device; an exchange of data on another device throws errc::stream
    /// \return           ROCm's default stream of that device
    [[nodiscard]] static constexpr stream_token rocm_default(std::int32_t device_id) noexcept {
        return {kind::legacy_default, device_type::rocm, 0, device_id};
    }
    /// \param handle  hipStream_t (R45); remains owned by the caller
    /// \return        token of that stream
    template <class Stream>
        requires std::is_class_v<Stream>
    [[nodiscard]] static stream_token rocm(Stream* handle) noexcept {
        return rocm_handle(reinterpret_cast<std::uintptr_t>(handle));
    }
    static stream_token rocm(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: use rocm_default()");
    template <std::integral Int>
    static stream_token rocm(Int) FERRY_DELETED("streams are not integers: use rocm_default() or pass the hipStream_t");

    /// \param type    device type other than CUDA's and ROCm's
    /// \param handle  native handle of the stream
    /// \return        token of that stream; for back ends of other devices
    [[nodiscard]] static constexpr stream_token native(device_type type, std::uintptr_t handle) noexcept {
        return {kind::handle, type, handle};
    }
    /// \param number  as CUDA and the array API number streams (R44): 1 legacy default, 2 per-thread default, otherwise
    ///                a handle
    /// \return        token of that stream; ambiguous for 0
    [[nodiscard]] static constexpr stream_token from_cuda_handle(std::uintptr_t number) noexcept {
        if (number == 1) return cuda_legacy_default();
        if (number == 2) return cuda_per_thread_default();
        return {kind::handle, device_type::cuda, number};
    }

    /// \param number  hipStream_t as a number
    /// \return        token of that stream; ambiguous for 0
    [[nodiscard]] static constexpr stream_token rocm_handle(std::uintptr_t number) noexcept {
        return {kind::handle, device_type::rocm, number};
    }

    [[nodiscard]] constexpr kind which() const noexcept { return kind_; }
    /// \return  device type of the stream's family; cpu for no stream and no_sync()
    [[nodiscard]] constexpr device_type family() const noexcept { return static_cast<device_type>(family_); }
    /// \return  the native handle: 1, 2 or the cudaStream_t for CUDA; 0 when there is none
    [[nodiscard]] constexpr std::uintptr_t native_handle() const noexcept { return handle_; }

    /// \return  whether it is a default stream, of which each device has one
    [[nodiscard]] constexpr bool is_default() const noexcept {
        return kind_ == kind::legacy_default || kind_ == kind::per_thread_default;
    }
    /// \return  whether the token contains a device: that of a default stream, or the one that a handle must belong to
    ///          (`bound_to`)
    [[nodiscard]] constexpr bool has_device() const noexcept { return has_device_; }
    /// \return  id of that device; 0 without one
    [[nodiscard]] constexpr std::int32_t device_id() const noexcept { return device_id_; }
    /// Completes a default stream without a device for work on memory of a device.
    ///
    /// \param d  device; pinned and managed memory, which streams of every device order, adds none
    /// \return   default stream of `d` for a default stream without a device; otherwise the same token
    [[nodiscard]] constexpr stream_token on_device(device d) const noexcept {
        return is_default() ? bound_to(d) : *this;
    }
    /// Adds a device to a token without one, handles included: back ends throw when the stream is of another device.
    ///
    /// \param d  device; pinned and managed memory adds none
    /// \return   token of the same stream
    [[nodiscard]] constexpr stream_token bound_to(device d) const noexcept {
        auto copy = *this;
        if (!names_stream() || has_device_ || ignores_id(d.type)) return copy;  // mutant: r44_said_device
        copy.device_id_ = d.id;
        copy.has_device_ = true;
        return copy;
    }
    /// \return  the same token without a device, as after a conversion to a number and back
    [[nodiscard]] constexpr stream_token without_device() const noexcept {
        auto copy = *this;
        copy.device_id_ = 0;
        copy.has_device_ = false;
        return copy;
    }
    /// \param d  device
    /// \return   whether it is the default stream of a device other than `d`; false for handles, whose device is
    ///           unknown
    [[nodiscard]] constexpr bool is_default_of_other(device d) const noexcept {
        return is_default() && has_device_ && !ignores_id(d.type) && device_id_ != d.id;
    }

    [[nodiscard]] constexpr bool is_none() const noexcept { return kind_ == kind::none; }
    [[nodiscard]] constexpr bool is_no_sync() const noexcept { return kind_ == kind::no_sync; }
    /// \return  whether the token identifies a stream, on which work can be ordered
    [[nodiscard]] constexpr bool names_stream() const noexcept { return kind_ > kind::no_sync; }
    /// \return  whether it is a null handle, which may mean either default stream (R44)
    [[nodiscard]] constexpr bool is_ambiguous() const noexcept { return kind_ == kind::handle && handle_ == 0; }

    /// \return  whether both identify the same stream
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

/// \param family  device type of the streams
/// \param type    device type of the memory
/// \return        whether such streams order work on such memory: CUDA's for types 2, 3 and 13, ROCm's for 10 and 11
[[nodiscard]] constexpr bool orders(device_type family, device_type type) noexcept {
    if (family == device_type::cuda) return uses_cuda_streams(type);
    if (family == device_type::rocm) return uses_rocm_streams(type);
    return family == type && type != device_type::cpu;
}

/// \param token  stream token
/// \param type   device type of the memory
/// \return       whether an exchange of such memory accepts the token: always without a stream and for no_sync(), also
///               on the host (R46); a stream of the matching family only; never an ambiguous one
[[nodiscard]] constexpr bool fits(stream_token token, device_type type) noexcept {
    if (!token.names_stream()) return true;
    return orders(token.family(), type) && !token.is_ambiguous();
}

}  // namespace ferry::inline v0
