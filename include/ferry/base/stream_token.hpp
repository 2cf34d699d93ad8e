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
/// exchange refuses with errc::stream. Integers exist only at the Python border. A value; thread-safe as an int is.
///
/// Every device has default streams of its own. A token of one may leave the device out: an exchange means that of its
/// tensor then, and whoever takes a stream alone means device 0. Tokens that name the same stream are equal.
class stream_token {
   public:
    enum class kind : std::uint8_t { none, no_sync, legacy_default, per_thread_default, handle };

    /// No stream: the producer decides. On the host that is the only one; where streams exist it asks for finished data
    /// or the default stream, as the rules of the device say (R44, R46, R49).
    constexpr stream_token() = default;

    /// The consumer takes care of the order itself (-1 in Python).
    [[nodiscard]] static constexpr stream_token no_sync() noexcept { return {kind::no_sync, device_type::cpu, 0}; }

    /// The legacy default stream, of the device that the exchange is about.
    [[nodiscard]] static constexpr stream_token cuda_legacy_default() noexcept {
        return {kind::legacy_default, device_type::cuda, 1};
    }
    /// That of one device: an exchange of data on another one refuses it.
    [[nodiscard]] static constexpr stream_token cuda_legacy_default(std::int32_t device_id) noexcept {
        return {kind::legacy_default, device_type::cuda, 1, device_id};
    }
    /// The calling thread's default stream, of the device that the exchange is about.
    [[nodiscard]] static constexpr stream_token cuda_per_thread_default() noexcept {
        return {kind::per_thread_default, device_type::cuda, 2};
    }
    /// That of one device: an exchange of data on another one refuses it.
    [[nodiscard]] static constexpr stream_token cuda_per_thread_default(std::int32_t device_id) noexcept {
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

    /// ROCm's default stream, of the device that the exchange is about.
    [[nodiscard]] static constexpr stream_token rocm_default() noexcept {
        return {kind::legacy_default, device_type::rocm, 0};
    }
    /// That of one device: an exchange of data on another one refuses it.
    [[nodiscard]] static constexpr stream_token rocm_default(std::int32_t device_id) noexcept {
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

    /// Whether it is a default stream, of which every device has one.
    [[nodiscard]] constexpr bool is_default() const noexcept {
        return kind_ == kind::legacy_default || kind_ == kind::per_thread_default;
    }
    /// Whether it says which device its stream is of: a default stream that somebody gave one, or a handle that must be
    /// of one (`bound_to`).
    [[nodiscard]] constexpr bool says_device() const noexcept { return says_device_; }
    /// That device; 0 when it says none.
    [[nodiscard]] constexpr std::int32_t device_id() const noexcept { return device_id_; }
    /// The same stream as work on memory of `where` means it: a default stream that leaves its device out becomes that
    /// of `where`. Memory that streams of every device order, pinned and managed, has none to put in.
    [[nodiscard]] constexpr stream_token on_device(device where) const noexcept {
        return is_default() ? bound_to(where) : *this;
    }
    /// The same, and of a handle, too, it says that its stream must be of that device: who can ask the stream refuses
    /// another one.
    [[nodiscard]] constexpr stream_token bound_to(device where) const noexcept {
        auto copy = *this;
        if (!names_stream() || says_device_ || ignores_id(where.type)) return copy;  // mutant: r44_said_device
        copy.device_id_ = where.id;
        copy.says_device_ = true;
        return copy;
    }
    /// The same without a word about the device: what is left of a token that went through an interface of numbers.
    [[nodiscard]] constexpr stream_token on_any_device() const noexcept {
        auto copy = *this;
        copy.device_id_ = 0;
        copy.says_device_ = false;
        return copy;
    }
    /// Whether it is the default stream of another device than memory of `where` lies on. Handles do not tell.
    [[nodiscard]] constexpr bool is_default_of_other(device where) const noexcept {
        return is_default() && says_device_ && !ignores_id(where.type) && device_id_ != where.id;
    }

    [[nodiscard]] constexpr bool is_none() const noexcept { return kind_ == kind::none; }
    [[nodiscard]] constexpr bool is_no_sync() const noexcept { return kind_ == kind::no_sync; }
    /// Whether work can be ordered on it.
    [[nodiscard]] constexpr bool names_stream() const noexcept { return kind_ > kind::no_sync; }
    /// A handle that turned out null at run time: nobody can tell which default stream was meant.
    [[nodiscard]] constexpr bool is_ambiguous() const noexcept { return kind_ == kind::handle && handle_ == 0; }

    /// Whether both name the same stream.
    friend constexpr bool operator==(stream_token const& a, stream_token const& b) noexcept {
        return a.kind_ == b.kind_ && a.family_ == b.family_ && a.handle_ == b.handle_ &&
               (a.device_id_ == b.device_id_ || !a.is_default());
    }

   private:
    constexpr stream_token(kind k, device_type f, std::uintptr_t h) noexcept
        : kind_{k}, family_{static_cast<std::int16_t>(f)}, handle_{h} {}
    constexpr stream_token(kind k, device_type f, std::uintptr_t h, std::int32_t device_id) noexcept
        : kind_{k}, says_device_{true}, family_{static_cast<std::int16_t>(f)}, device_id_{device_id}, handle_{h} {}

    kind kind_ = kind::none;
    bool says_device_ = false;
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
