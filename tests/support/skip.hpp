// Skips test cases that this machine or user cannot run; doctest counts them as skipped, and the reason is printed.
#pragma once

#include <cstdio>

#include <unistd.h>

namespace support {

/// TEST_CASE("…" * doctest::skip(support::lacks(can, "what is missing"))): asked before any test runs.
[[nodiscard]] inline bool lacks(bool can, char const* why) {
    if (!can) std::printf("SKIPPED: %s\n", why), std::fflush(stdout);
    return !can;
}

[[nodiscard]] inline bool lacks_root() {
    return lacks(::geteuid() == 0, "only root can become another user, and give files away");
}

}  // namespace support
