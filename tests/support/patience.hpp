// The one deadline of tests: it ends a hang, and decides nothing.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace support {

/// For what takes milliseconds on an idle machine, and is sure to come on a loaded one.
inline constexpr std::chrono::seconds patience{120};

/// Ends a program that hangs, and says on what.
[[noreturn]] inline void give_up(char const* what) {
    std::fprintf(stderr, "after %lld s still waiting for %s\n", static_cast<long long>(patience.count()), what);
    std::abort();
}

/// Waits until `is_so()`, which no event announces; ends the program when it hangs.
template <class F>
void until(char const* what, F is_so) {
    for (auto const end = std::chrono::steady_clock::now() + patience; !is_so();) {
        if (std::chrono::steady_clock::now() > end) give_up(what);
        std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
}

}  // namespace support
