// The deadline of all tests. It only ends a test that hangs; no result depends on it.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace support {

/// The deadline; long enough for any load, for waits that take milliseconds on an idle machine.
inline constexpr std::chrono::seconds patience{120};

/// Ends a program that hangs; `what` is what it waits for.
[[noreturn]] inline void give_up(char const* what) {
    std::fprintf(stderr, "after %lld s still waiting for %s\n", static_cast<long long>(patience.count()), what);
    std::abort();
}

/// Polls until `is_so()`, for conditions without an event; ends the program after the deadline.
/// \param state  returns a string: what the condition depends on, for the message
template <class F, class State>
void until(char const* what, F is_so, State state) {
    for (auto const end = std::chrono::steady_clock::now() + patience; !is_so();) {
        if (std::chrono::steady_clock::now() > end) give_up((std::string{what} + state()).c_str());
        std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
}
template <class F>
void until(char const* what, F is_so) {
    until(what, is_so, [] { return std::string{}; });
}

}  // namespace support
