#include <ferry/ipc/message.hpp>

#include "support/fails.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace ferry::ipc;
using namespace ferry::ipc::protocol;

namespace {

std::vector<message> one_of_each() {
    std::vector<std::byte> const some{std::byte{1}, std::byte{0}, std::byte{255}};
    entry const shown{"camera", 1, 2, 3, 4, 5, 6, 7};
    statistics counts;
    counts.published = 1;
    counts.violations = 2;
    return {attach{1, UINT64_MAX, 3, 4, "camera"},
            acknowledge{1, some},
            release{1, 2},
            ping{1},
            list{1, "camera"},
            drop{1, std::string(200, 'x')},
            count{1},
            granted{1, 2, 3, 4, 5, true, 8, some},
            refused{1, reason::bad_message},
            done{1},
            listing{1, true, {shown, shown}},
            counted{1, counts},
            withdrawn{1},
            closing{}};
}

void set(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

void refuses(std::vector<std::byte> const& bytes, char const* why) {
    // Ends at the end of its allocation, so that AddressSanitizer detects a read beyond it.
    std::vector<std::byte> const exact{bytes};
    support::fails(ferry::errc::bad_descriptor, [&] { static_cast<void>(from_bytes(exact)); }, {why});
}

}  // namespace

TEST_CASE("IPC: every message is decoded to the message that was encoded") {
    auto const all = one_of_each();
    REQUIRE(all.size() == std::variant_size_v<message>);
    for (std::size_t i = 0; i < all.size(); ++i) {
        REQUIRE(all[i].index() == i);
        CHECK(from_bytes(to_bytes(all[i])) == all[i]);
    }
}

TEST_CASE("IPC: messages have the same encoding on every platform") {
    std::string hex;
    for (auto b : to_bytes(attach{1, 2, 3, 0x01020304, "ab"})) {
        constexpr auto digits = "0123456789abcdef";
        hex += {digits[std::to_integer<int>(b) >> 4], digits[std::to_integer<int>(b) & 15]};
    }
    CHECK(hex ==
          "46490100"
          "28000000"
          "0100000000000000"
          "0200000000000000"
          "0300000000000000"
          "04030201"
          "0200"
          "6162");
}

TEST_CASE("IPC: a truncated message is refused") {
    for (auto const& m : one_of_each()) {
        auto const whole = to_bytes(m);
        for (std::size_t n = 0; n < whole.size(); ++n) {
            std::vector<std::byte> cut{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)};
            refuses(cut, "byte");
            if (n >= 8) set(cut, 4, n, 4), refuses(cut, "truncated");
        }
    }
}

TEST_CASE("IPC: bytes after a message are refused") {
    for (auto const& m : one_of_each()) {
        auto bytes = to_bytes(m);
        bytes.push_back(std::byte{0});
        refuses(bytes, "a wrong size");
        set(bytes, 4, bytes.size(), 4);
        refuses(bytes, "bytes are left over");
    }
}

TEST_CASE("IPC: other formats, versions and types are refused with the reason") {
    auto bytes = to_bytes(ping{1});
    auto const with = [&](std::size_t at, int value) {
        auto copy = bytes;
        copy[at] = static_cast<std::byte>(value);
        return copy;
    };
    refuses(with(0, 'X'), "no message of ferry's");
    refuses(with(1, 'X'), "no message of ferry's");
    refuses(with(2, 2), "another version");
    refuses(with(3, 200), "an unknown type");
    refuses(with(4, 255), "a wrong size");
}

TEST_CASE("IPC: forged lengths and values are refused before memory is allocated for them") {
    auto bytes = to_bytes(granted{1, 2, 3, 4, 5, true, 0, {}});
    set(bytes, bytes.size() - 4, UINT32_MAX, 4);
    refuses(bytes, "truncated");
    bytes = to_bytes(granted{1, 2, 3, 4, 5, true, 9, {}});
    refuses(bytes, "an impossible number of file descriptors");
    refuses(to_bytes(granted{1, 2, 3, 4, 5, false, 1, {}}), "an impossible number of file descriptors");
    bytes = to_bytes(granted{1, 2, 3, 4, 5, true, 1, {}});
    set(bytes, 44, 2, 1);
    refuses(bytes, "a bool is 2");
    bytes = to_bytes(refused{1, reason::closed});
    set(bytes, bytes.size() - 1, 5, 1);
    refuses(bytes, "an unknown reason");
    bytes = to_bytes(listing{1, false, {}});
    set(bytes, bytes.size() - 2, 65535, 2);
    refuses(bytes, "truncated");
    refuses(to_bytes(attach{1, 0, 0, 0, std::string(201, 'x')}), "expected at most 200");
    refuses(to_bytes(acknowledge{1, std::vector<std::byte>(257)}), "more than 256 bytes");
    refuses(to_bytes(granted{1, 2, 3, 4, 5, true, 0, std::vector<std::byte>(65536)}), "a wrong size");
}

TEST_CASE("IPC: the largest messages are within the limit") {
    CHECK(to_bytes(granted{1, 2, 3, 4, 5, true, 8, std::vector<std::byte>(max_descriptor)}).size() <= max_message);
    CHECK(to_bytes(listing{1, true, std::vector<entry>(128, entry{std::string(max_name, 'x'), 1, 2, 3, 4, 5, 6, 7})})
              .size() <= max_message);
}

TEST_CASE("IPC: a name is short and printable") {
    CHECK(is_name("camera/left 1"));
    CHECK(is_name("Grün"));
    CHECK(is_name(std::string(200, 'x')));
    CHECK_FALSE(is_name(""));
    CHECK_FALSE(is_name(std::string(201, 'x')));
    CHECK_FALSE(is_name("a\x1b[2J"));
    CHECK_FALSE(is_name("a\x7f"));
    CHECK_FALSE(is_name(std::string_view{"a\0b", 3}));
}
