#include <ferry/wire/check.hpp>
#include <ferry/wire/detail/crc32c.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

using ferry::wire::detail::crc32c;

namespace {

template <std::size_t N>
constexpr auto bytes_of(char const (&text)[N]) {
    std::array<std::byte, N - 1> out{};
    for (std::size_t i = 0; i + 1 < N; ++i) out[i] = static_cast<std::byte>(text[i]);
    return out;
}

template <std::size_t N>
constexpr std::array<std::byte, N> repeated(unsigned char byte) {
    std::array<std::byte, N> out{};
    out.fill(std::byte{byte});
    return out;
}

constexpr std::array<std::byte, 32> counting() {
    std::array<std::byte, 32> out{};
    for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<std::byte>(i);
    return out;
}

constexpr auto digits = bytes_of("123456789");

}  // namespace

// The check value of the CRC catalogue, and the test vectors of RFC 3720, B.4.
static_assert(crc32c(digits) == 0xe306'9283);
static_assert(crc32c(repeated<32>(0)) == 0x8a91'36aa && crc32c(repeated<32>(0xff)) == 0x62a8'ab43);
static_assert(crc32c(counting()) == 0x46dd'794e);
static_assert(crc32c({}) == 0);
static_assert(crc32c(std::span{digits}.subspan(4), crc32c(std::span{digits}.first(4))) == crc32c(digits));

using ferry::wire::detail::is_segment_name;
static_assert(is_segment_name("/ferry-1000-4026531836-42-7_a.b") && !is_segment_name("/") && !is_segment_name("ferry"));
static_assert(!is_segment_name("/..") && !is_segment_name("/.hidden") && !is_segment_name("/a/b") &&
              !is_segment_name("/a b"));
static_assert(!is_segment_name(std::string_view{"/a\0b", 4}) && !is_segment_name("/\xc3\xa9"));
