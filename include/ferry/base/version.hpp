// ferry: the version of the DLPack protocol.
#pragma once

#include <ferry/config.hpp>

#include <compare>
#include <cstdint>

namespace FERRY_NAMESPACE {

/// A DLPack version. Major versions differ in ABI (R2); minor versions of one major version have the same ABI (R3).
struct version {
    std::uint32_t major;
    std::uint32_t minor;

    /// The newest version that ferry supports, regardless of the version of the DLPack header.
    static version const current;
    /// The version that denotes the unversioned `DLManagedTensor`, for example in a request (R57).
    static version const legacy;

    /// Returns whether the version denotes the unversioned `DLManagedTensor`.
    [[nodiscard]] constexpr bool is_legacy() const noexcept { return major == 0; }

    friend constexpr auto operator<=>(version const&, version const&) = default;
};

inline constexpr version version::current{1, 3};
inline constexpr version version::legacy{0, 0};

}  // namespace FERRY_NAMESPACE
