// Untrusted descriptors as JSON. To pass the checksum, a document that parses is read again with the correct one. To
// keep the syntax valid, half of the mutations change values of a document.
#include "wire.hpp"

#include <array>
#include <limits>
#include <random>
#include <string>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using nlohmann::json;

void read(std::string_view text) {
    fuzz::decode(std::as_bytes(std::span{text}), 128, [](auto exact) {
        return ferry::wire::from_json({reinterpret_cast<char const*>(exact.data()), exact.size()});
    });
}

/// Null if the text is not JSON, or nested deeper than ferry reads.
json parsed(std::string_view text) {
    int deepest = 0;
    auto document = json::parse(
        text,
        [&](int depth, auto, auto const&) {
            deepest = std::max(deepest, depth);
            return depth <= ferry::wire::detail::max_json_depth;
        },
        false);
    return document.is_discarded() || deepest > ferry::wire::detail::max_json_depth ? json{} : document;
}

std::string written(json const& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Changes a document in one or several places.
class mutator {
   public:
    explicit mutator(unsigned seed) : random_{seed} {}

    void change(json& document) {
        do change_once(document);
        while (below(3) != 0);
    }

   private:
    std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random_); }

    static void collect(json& value, std::vector<json*>& out) {
        out.push_back(&value);
        if (value.is_structured())
            for (auto& item : value) collect(item, out);
    }

    json& any(json& document) {
        std::vector<json*> all;
        collect(document, all);
        return *all[below(all.size())];
    }

    json number() {
        static constexpr std::array<std::int64_t, 5> widths = {7, 8, 16, 31, 53};
        auto const edge = std::int64_t{1} << widths[below(widths.size())];
        auto const near = static_cast<std::int64_t>(below(5)) - 2;
        switch (below(6)) {
            case 0: return near;
            case 1: return edge + near;
            case 2: return -edge + near;
            case 3: return std::to_string(std::numeric_limits<std::int64_t>::max() + std::min<std::int64_t>(near, 0));
            case 4: return std::numeric_limits<std::uint64_t>::max() - below(3);
            default: return below(below(2) == 0 ? 20 : 300);  // codes of DLPack, and what fits into a byte
        }
    }

    json other() {
        switch (below(8)) {
            case 0: return nullptr;
            case 1: return true;
            case 2: return 0.5;
            case 3: return "";
            case 4: return json::array();
            case 5: return json::object();
            default: return number();
        }
    }

    void change_once(json& document) {
        auto& at = any(document);
        if (below(4) == 0) {
            at = below(2) == 0 ? other() : json{any(document)};
        } else if (at.is_object() && !at.empty()) {
            auto const member = std::next(at.begin(), static_cast<std::ptrdiff_t>(below(at.size())));
            auto const& from = any(document);
            auto const value = json{*member};
            if (below(3) == 0) at.erase(member);
            else if (from.is_object() && !from.empty())  // under another of the document's names
                at[std::next(from.begin(), static_cast<std::ptrdiff_t>(below(from.size()))).key()] = value;
        } else if (at.is_array() && !at.empty()) {
            auto const item = below(at.size());
            if (below(2) == 0) at.erase(item);
            else at.push_back(json{at[item]});
        } else if (at.is_number_integer()) {
            if (below(2) == 0) at = number();
            else at = at.get<std::int64_t>() / 2 + static_cast<std::int64_t>(below(9)) - 4;
        } else if (at.is_string()) {
            auto text = at.get<std::string>();
            auto const size = text.size();
            text.resize(size + 16);
            text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
            at = text;
        }
    }

    std::minstd_rand random_;
};

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
    auto document = seed % 2 == 0 ? parsed({reinterpret_cast<char const*>(data), size}) : json{};
    if (document.is_null()) return LLVMFuzzerMutate(data, size, max_size);
    mutator{seed}.change(document);
    auto const text = written(document);
    if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::copy(text.begin(), text.end(), data);
    return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string const text{reinterpret_cast<char const*>(data), size};
    read(text);
    auto document = parsed(text);
    if (!document.is_object()) return 0;
    document.erase("checksum");
    auto const canonical = document.dump();
    document["checksum"] = ferry::wire::detail::crc32c(std::as_bytes(std::span{canonical}));
    read(document.dump());
    return 0;
}
