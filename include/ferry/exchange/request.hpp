// ferry: the request of a consumer to a producer.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/base/version.hpp>
#include <ferry/tensor/layout.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace FERRY_NAMESPACE {

/// The `copy` argument of the array API (R53).
enum class copy_policy : std::uint8_t {
    if_needed,  ///< share if possible, otherwise copy (None in Python)
    always,     ///< copy to new memory, of which the consumer is the sole owner (True); the copy that a producer makes
                ///< for the request is not copied again
    never,      ///< share, otherwise fail with errc::copy_needed or errc::not_shareable (False)
};

/// Where the memory of the result may lie.
enum class placement : std::uint8_t {
    any,    ///< in memory that the requested device can access
    exact,  ///< in the space of the `destination` that is passed as the back end: shares only tensors that the space
            ///< contains (`containing_space`), and copies others into it
};

/// The request of a consumer: the arguments of `__dlpack__` (R52). The order of the members is stable, so that
/// designated initialisers remain valid: `{.device = ferry::cpu, .copy = ferry::copy_policy::always}`.
struct request {
    /// The target device; std::nullopt selects the device of the data.
    std::optional<ferry::device> device{};
    /// Whether to share or copy.
    copy_policy copy{};
    /// The stream of the target device on which the consumer will use the data (R48).
    stream_token stream{};
    /// The newest version that the consumer supports; version::legacy requests the unversioned struct (R57).
    version max_version = version::current;
    /// The layout of a copy that ferry makes: layout::strided keeps the order of a dense source where possible (see
    /// to_dlpack), and layout::contiguous is row-major. Does not cause a copy, with one exception: with
    /// copy_policy::always and layout::contiguous, ferry copies again if the producer's copy has another order.
    ferry::layout layout = ferry::layout::strided;
    /// Where the memory of the result may lie.
    ferry::placement placement = ferry::placement::any;
};

namespace detail {

/// An integer or a pointer instead of a stream. Not default constructible: a request without a stream does not convert
/// to `wrong_request`.
struct wrong_stream {
    template <class Stream>
        requires std::is_scalar_v<Stream>
    constexpr wrong_stream(Stream) noexcept {}
};

/// A request with such a stream. Clang discards overloads whose request cannot be initialised, and selects a deleted
/// overload with this one; GCC selects the former, and prints the message of stream_token.
struct wrong_request {
    std::optional<ferry::device> device{};
    copy_policy copy{};
    wrong_stream stream;
    version max_version = version::current;
    ferry::layout layout = ferry::layout::strided;
    ferry::placement placement = ferry::placement::any;
};

/// A number, a pointer, or a type and an id in braces instead of a device, and a request with it. Both compilers select
/// a deleted overload with such a request.
struct wrong_device {
    template <class Device>
        requires(std::is_scalar_v<Device> && !std::convertible_to<Device, std::optional<ferry::device>>)
    constexpr wrong_device(Device) noexcept {}
    constexpr wrong_device(device_type, std::int32_t) noexcept {}
};
struct request_of_wrong_device {
    wrong_device device;
    copy_policy copy{};
    stream_token stream{};
    version max_version = version::current;
    ferry::layout layout = ferry::layout::strided;
    ferry::placement placement = ferry::placement::any;
};

/// The same for a bool or a number instead of a copy_policy.
struct wrong_copy {
    template <class Copy>
        requires(std::is_scalar_v<Copy> && !std::same_as<Copy, copy_policy>)
    constexpr wrong_copy(Copy) noexcept {}
};
struct request_of_wrong_copy {
    std::optional<ferry::device> device{};
    wrong_copy copy;
    stream_token stream{};
    version max_version = version::current;
    ferry::layout layout = ferry::layout::strided;
    ferry::placement placement = ferry::placement::any;
};

}  // namespace detail

}  // namespace FERRY_NAMESPACE
