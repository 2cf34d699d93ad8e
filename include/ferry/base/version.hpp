// ferry: the version of the protocol, not of the library.
#pragma once

#include <ferry/config.hpp>

#include <compare>
#include <cstdint>

namespace ferry::inline v0 {

/// A DLPack version. A different major is a different ABI (R2); a minor only adds enumerators (R3).
struct version {
    std::uint32_t major;
    std::uint32_t minor;

    /// The newest version that ferry speaks, whatever DLPack header it is compiled with.
    static version const current;
    /// What a consumer that never heard of versions gets: the unversioned `DLManagedTensor` (R57).
    static version const legacy;

    [[nodiscard]] constexpr bool is_legacy() const noexcept { return major == 0; }

    friend constexpr auto operator<=>(version const&, version const&) = default;
};

inline constexpr version version::current{1, 3};
inline constexpr version version::legacy{0, 0};

}  // namespace ferry::inline v0
