// ferry: which stream an exchange is ordered on, as a type instead of an integer.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ferry::inline v0 {

/// Names a stream for the handshake (R43–R46): none, no synchronisation wanted, the legacy default stream, the
/// per-thread default stream, or a handle; the latter three for one family of devices. Borrows the stream: it stays the
/// consumer's.
///
/// A literal 0 or nullptr does not compile, because it is ambiguous; a null handle at run time gives a token that every
/// exchange refuses with errc::stream. Integers exist only at the Python border. A regular value; thread-safe as an int
/// is.
class stream_token {
   public:
    enum class kind : std::uint8_t { none, no_sync, legacy_default, per_thread_default, handle };

    /// No stream: the producer decides. On the host that is the only one; where streams exist it asks for finished data
    /// or the default stream, as the rules of the device say (R44, R46, R49).
    constexpr stream_token() = default;

    /// The consumer takes care of the order itself (-1 in Python).
    [[nodiscard]] static constexpr stream_token no_sync() noexcept { return {kind::no_sync, device_type::cpu, 0}; }

    /// Every device has default streams of its own; an exchange puts in the device of its tensor (`on_device`).
    [[nodiscard]] static constexpr stream_token cuda_legacy_default(std::int32_t device_id = 0) noexcept {
        return {kind::legacy_default, device_type::cuda, 1, device_id};
    }
    [[nodiscard]] static constexpr stream_token cuda_per_thread_default(std::int32_t device_id = 0) noexcept {
        return {kind::per_thread_default, device_type::cuda, 2, device_id};
    }
    /// A cudaStream_t; also the two handles that CUDA reserves for its default streams (1 and 2).
    template <class Stream>
        requires std::is_class_v<Stream>
    [[nodiscard]] static stream_token cuda(Stream* handle) noexcept {
        return from_cuda_handle(reinterpret_cast<std::uintptr_t>(handle));
    }
    // clang-format off
    static stream_token cuda(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: say cuda_legacy_default() or cuda_per_thread_default()");
    // clang-format on
    template <std::integral Int>
    // clang-format off
    static stream_token cuda(Int) FERRY_DELETED("streams are not integers: say cuda_legacy_default(), cuda_per_thread_default() or pass the cudaStream_t");
    // clang-format on

    [[nodiscard]] static constexpr stream_token rocm_default(std::int32_t device_id = 0) noexcept {
        return {kind::legacy_default, device_type::rocm, 0, device_id};
    }
    /// A hipStream_t (R45).
    template <class Stream>
        requires std::is_class_v<Stream>
    [[nodiscard]] static stream_token rocm(Stream* handle) noexcept {
        return rocm_handle(reinterpret_cast<std::uintptr_t>(handle));
    }
    static stream_token rocm(std::nullptr_t) FERRY_DELETED("a null stream is ambiguous: say rocm_default()");
    template <std::integral Int>
    static stream_token rocm(Int) FERRY_DELETED("streams are not integers: say rocm_default() or pass the hipStream_t");

    /// A stream of any other device type that has them, by its native handle (for back ends, and simulated devices).
    [[nodiscard]] static constexpr stream_token native(device_type type, std::uintptr_t handle) noexcept {
        return {kind::handle, type, handle};
    }
    /// A CUDA stream by the number that CUDA and the array API give it: 1 legacy, 2 per-thread, else a handle (R44).
    [[nodiscard]] static constexpr stream_token from_cuda_handle(std::uintptr_t number) noexcept {
        if (number == 1) return cuda_legacy_default();
        if (number == 2) return cuda_per_thread_default();
        return {kind::handle, device_type::cuda, number};
    }

    [[nodiscard]] static constexpr stream_token rocm_handle(std::uintptr_t number) noexcept {
        return {kind::handle, device_type::rocm, number};
    }

    [[nodiscard]] constexpr kind which() const noexcept { return kind_; }
    /// The family of devices whose streams the token names; cpu for none() and no_sync().
    [[nodiscard]] constexpr device_type family() const noexcept { return static_cast<device_type>(family_); }
    /// The native handle: for CUDA 1, 2 or the cudaStream_t; 0 when there is none.
    [[nodiscard]] constexpr std::uintptr_t native_handle() const noexcept { return handle_; }

    /// The device of a default stream; 0 for handles, which know their own.
    [[nodiscard]] constexpr std::int32_t device_id() const noexcept { return device_id_; }
    /// The same stream as work on memory of `where` means it: default streams become those of its device.
    [[nodiscard]] constexpr stream_token on_device(device where) const noexcept {
        auto copy = *this;
        if ((kind_ == kind::legacy_default || kind_ == kind::per_thread_default) && !ignores_id(where.type))
            copy.device_id_ = where.id;
        return copy;
    }

    [[nodiscard]] constexpr bool is_none() const noexcept { return kind_ == kind::none; }
    [[nodiscard]] constexpr bool is_no_sync() const noexcept { return kind_ == kind::no_sync; }
    /// Whether work can be ordered on it.
    [[nodiscard]] constexpr bool names_stream() const noexcept { return kind_ > kind::no_sync; }
    /// A handle that turned out null at run time: nobody can tell which default stream was meant.
    [[nodiscard]] constexpr bool is_ambiguous() const noexcept { return kind_ == kind::handle && handle_ == 0; }

    friend constexpr bool operator==(stream_token const&, stream_token const&) = default;

   private:
    constexpr stream_token(kind k, device_type f, std::uintptr_t h, std::int32_t device_id = 0) noexcept
        : kind_{k}, family_{static_cast<std::int16_t>(f)}, device_id_{device_id}, handle_{h} {}

    kind kind_ = kind::none;
    std::int16_t family_ = static_cast<std::int16_t>(device_type::cpu);
    std::int32_t device_id_ = 0;
    std::uintptr_t handle_ = 0;
};

/// Whether streams of `family` order work on memory of type `type`: types 2, 3 and 13 take CUDA tokens, 10 and 11
/// ROCm's.
[[nodiscard]] constexpr bool orders(device_type family, device_type type) noexcept {
    if (family == device_type::cuda) return uses_cuda_streams(type);
    if (family == device_type::rocm) return uses_rocm_streams(type);
    return family == type && type != device_type::cpu;
}

/// Whether an exchange on memory of type `type` may carry `token`: none() and no_sync() always (R46 tolerates no_sync
/// on the host), a stream only of the right family, and never an ambiguous one.
[[nodiscard]] constexpr bool fits(stream_token token, device_type type) noexcept {
    if (!token.names_stream()) return true;
    return orders(token.family(), type) && !token.is_ambiguous();
}

}  // namespace ferry::inline v0
