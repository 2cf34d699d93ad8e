// Descriptors as JSON from a stranger. The checksum is no hurdle for one: a document that parses is read once more with
// the right one.
#include "wire.hpp"

#include <string>

namespace {

void read(std::string_view text) {
    fuzz::decode(std::as_bytes(std::span{text}), 128, [](auto exact) {
        return ferry::wire::from_json({reinterpret_cast<char const*>(exact.data()), exact.size()});
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string const text{reinterpret_cast<char const*>(data), size};
    read(text);
    int deepest = 0;
    auto document = nlohmann::json::parse(
        text,
        [&](int depth, auto, auto const&) {
            deepest = std::max(deepest, depth);
            return depth <= ferry::wire::detail::max_json_depth;
        },
        false);
    if (deepest > ferry::wire::detail::max_json_depth || !document.is_object()) return 0;
    document.erase("checksum");
    auto const canonical = document.dump();
    document["checksum"] = ferry::wire::crc32c(std::as_bytes(std::span{canonical}));
    read(document.dump());
    return 0;
}
