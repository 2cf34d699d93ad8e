// Converts the bytes of a fuzzer to values, from the front, so that a seed can be read and written by hand. Zeros after
// the end.
#pragma once

#include <ferry/base/error.hpp>

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

/// Of 128 bits, for oracles that cannot overflow.
#if defined(__SIZEOF_INT128__)
using wide = __int128;
#else
using wide = _BitInt(128);  // Clang, on machines of 32 bits
#endif

/// Mostly small numbers, often the limits of the range, sometimes any number.
[[nodiscard]] inline std::int64_t number(bytes& in) noexcept {
    std::int64_t const n = in.take<std::int8_t>();
    switch (n) {
        case 127: return in.take<std::int64_t>();
        case 126: return INT64_MAX - in.take<std::uint8_t>();
        case -127: return INT64_MIN + in.take<std::uint8_t>();
        case 125: return std::int64_t{1} << in.below(63);
        case -126: return -(std::int64_t{1} << in.below(63));
        default: return n;
    }
}

/// A property that must hold for all inputs. Otherwise aborts, which the fuzzer reports with its input.
inline void check(bool holds, char const* what) noexcept {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

/// Records an error code of ferry. With FERRY_FUZZ_ERRORS the process lists the codes at its end.
inline void saw(ferry::errc code) noexcept {
    static std::uint64_t seen = 0;
    static bool const at_end = std::getenv("FERRY_FUZZ_ERRORS") != nullptr &&
                               std::atexit([] {
                                   std::fprintf(stderr, "errc:");
                                   for (unsigned i = 0; i < 64; ++i)
                                       if ((seen >> i & 1) != 0)
                                           std::fprintf(stderr, " %s", ferry::name(ferry::errc{static_cast<int>(i)}));
                                   std::fprintf(stderr, "\n");
                               }) == 0;
    static_cast<void>(at_end);
    seen |= std::uint64_t{1} << static_cast<unsigned>(code);
}

}  // namespace fuzz

#define HOLDS(...) ::fuzz::check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__)
