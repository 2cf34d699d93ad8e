// Turns a fuzzer's bytes into values, from the front, so that a seed can be read and written by hand. Zeros when they run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace fuzz {

class bytes {
   public:
    bytes(std::uint8_t const* data, std::size_t size) noexcept : at_{data}, end_{data + size} {}

    template <class T>
        requires std::is_integral_v<T>
    [[nodiscard]] T take() noexcept {
        T value = 0;
        auto const left = static_cast<std::size_t>(end_ - at_), n = left < sizeof value ? left : sizeof value;
        if (n != 0) std::memcpy(&value, at_, n);
        at_ += n;
        return value;
    }
    /// One of 0 … n − 1.
    [[nodiscard]] unsigned below(unsigned n) noexcept { return take<std::uint8_t>() % n; }
    [[nodiscard]] bool flip() noexcept { return (take<std::uint8_t>() & 1) != 0; }
    [[nodiscard]] bool is_empty() const noexcept { return at_ == end_; }

   private:
    std::uint8_t const* at_;
    std::uint8_t const* end_;
};

/// What must hold whatever the bytes are. Aborts, which the fuzzer reports with its input.
inline void check(bool holds, char const* what) noexcept {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

}  // namespace fuzz

#define HOLDS(...) ::fuzz::check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__)
