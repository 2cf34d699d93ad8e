// Test cases that not every machine or user can run: doctest counts them as skipped, and they say why.
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
