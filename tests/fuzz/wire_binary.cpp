// Untrusted descriptors as bytes. To pass the checksum, the correct one is appended unless the first byte is 0, and the
// header of documents is prepended where the first byte is even.
#include "wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    auto const mode = data[0];
    std::vector<std::byte> bytes;
    if (mode % 2 == 0 && mode != 0)
        for (unsigned const c : {'F' + 0u, 'R' + 0u, 'Y' + 0u, 'D' + 0u, 2u, 0u, mode / 2u % 8, 0u})
            bytes.push_back(static_cast<std::byte>(c));
    for (std::size_t i = 1; i < size; ++i) bytes.push_back(std::byte{data[i]});
    if (mode != 0) {
        auto const crc = ferry::wire::detail::crc32c(bytes);
        for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(crc >> 8 * i));
    }
    fuzz::decode(bytes, 16, [](auto exact) { return ferry::wire::from_bytes(exact); });
    return 0;
}
