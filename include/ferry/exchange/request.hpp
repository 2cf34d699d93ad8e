// ferry: what a consumer asks of a producer.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/base/version.hpp>

#include <cstdint>
#include <optional>

namespace ferry::inline v0 {

/// The `copy` argument of the array API (R53).
enum class copy_policy : std::uint8_t {
    if_needed,  ///< None: share when possible, else copy
    always,     ///< True: fresh memory, of which the receiver is the sole owner
    never,      ///< False: share, or fail with errc::copy_needed
};

/// A consumer's wishes, in the words of `__dlpack__` (R52). An aggregate whose order of members is frozen, so that
/// designated initialisers stay valid: `{.device = ferry::cpu, .copy = ferry::copy_policy::always}`.
struct request {
    /// Where the data is wanted; nothing: where it is.
    std::optional<ferry::device> device{};
    copy_policy copy{};
    /// The stream on which the consumer will use the data, of the device where it then is (R48).
    stream_token stream{};
    /// The newest version that the consumer reads; version::legacy asks for the unversioned struct (R57).
    version max_version = version::current;
};

}  // namespace ferry::inline v0
