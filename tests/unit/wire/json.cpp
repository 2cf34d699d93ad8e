#include <ferry/wire/binary.hpp>
#include <ferry/wire/json.hpp>

#include <support/descriptors.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

using namespace ferry::wire;
using ferry::errc;
using json = nlohmann::json;

namespace {

/// From an allocation of exactly its size, so that a sanitizer detects a read beyond it.
auto read(std::string_view text, auto reader) {
    std::unique_ptr<char[]> const exact{new char[text.size()]};
    if (!text.empty()) std::memcpy(exact.get(), text.data(), text.size());
    return reader(std::string_view{exact.get(), text.size()});
}
descriptor read(std::string_view text) {
    return read(text, [](auto exact) { return from_json(exact); });
}

void refuses(std::string_view text, std::initializer_list<char const*> texts = {}) {
    support::both_fail(
        errc::bad_descriptor, [&] { static_cast<void>(read(text)); },
        [&] { return read(text, [](auto exact) { return try_from_json(exact); }); }, texts);
}

/// The document with a valid checksum.
std::string sealed(json document) {
    document.erase("checksum");
    auto const canonical = document.dump();
    document["checksum"] = detail::crc32c(std::as_bytes(std::span{canonical}));
    return document.dump();
}
json parsed(descriptor const& d) { return json::parse(to_json(d)); }
json::json_pointer at(char const* pointer) { return json::json_pointer{pointer}; }

template <class T>
std::string with(json document, char const* pointer, T value) {
    document[at(pointer)] = std::move(value);
    return sealed(std::move(document));
}

/// Every path to a value of the document.
void paths_of(json const& value, std::string const& here, std::vector<std::string>& out) {
    if (!here.empty()) out.push_back(here);
    for (auto const& [key, member] : value.items())
        if (value.is_structured()) paths_of(member, here + "/" + key, out);
}

/// The text of a value with its keys in the opposite order, spread over lines.
std::string backwards(json const& value) {
    if (!value.is_object()) {
        if (!value.is_array()) return value.dump(-1, ' ', true);
        std::string out = "[\n";
        for (auto const& item : value) out += (out.size() > 2 ? ",\t" : "") + backwards(item);
        return out + " ]";
    }
    std::string out;
    for (auto const& [key, member] : value.items())
        out = "\r\n  " + json(key).dump() + " : " + backwards(member) + (out.empty() ? "" : " ,") + out;
    return "{" + out + "}";
}

}  // namespace

TEST_CASE("a descriptor written as JSON is read unchanged, and equals that of the bytes") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        auto const text = to_json(d);
        CHECK(text.find('\n') == std::string::npos);
        CHECK(read(text) == d);
        CHECK(read(to_json(d, 2)) == d);
        CHECK(to_json(read(text)) == text);
        CHECK(from_bytes(to_bytes(read(text))) == d);
    }
}

TEST_CASE("the order of keys, white space, and the escapes of characters have no effect") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        auto const text = backwards(parsed(d));
        CHECK(text.find("\"version\"") < text.find("\"checksum\""));
        CHECK(read(text) == d);
    }
}

TEST_CASE("integers above 2^53 are decimal strings, and others may be") {
    auto const all = support::descriptors();
    auto const large = parsed(all[15].d);
    CHECK(large["from"]["pid_namespace"] == "18446744073709551615");
    CHECK(large["memories"][0]["id"] == "9007199254740993");
    CHECK(large["memories"][0]["allocation"] == "9223372036854775807");
    CHECK(large["memories"][0]["length"] == 80);
    auto exact = all[15].d;
    exact.memories[0].id = std::uint64_t{1} << 53;
    CHECK(parsed(exact)["memories"][0]["id"] == 9007199254740992);
    CHECK(read(to_json(exact)) == exact);
    CHECK(read(with(parsed(exact), "/memories/0/length", "80")) == exact);
    auto far = support::describe(support::host_memory(8), {.shape = {0}, .strides = {-(std::int64_t{1} << 53) - 1}});
    CHECK(parsed(far)["tensor"]["strides"][0] == "-9007199254740993");
    CHECK(read(to_json(far)) == far);
}

TEST_CASE("a decimal string is the one text of an integer that fits its type") {
    auto const is = [](std::string_view text, auto expected) {
        auto out = expected;
        out = 1;
        return detail::from_decimal(text, out) && out == expected;
    };
    auto const is_none = [](std::string_view text, auto out) { return !detail::from_decimal(text, out); };
    CHECK((is("18446744073709551615", UINT64_MAX) && is_none("18446744073709551616", UINT64_MAX)));
    CHECK((is("-9223372036854775808", INT64_MIN) && is_none("-9223372036854775809", INT64_MIN)));
    CHECK((is("9223372036854775807", INT64_MAX) && is_none("9223372036854775808", INT64_MAX)));
    CHECK((is("255", std::uint8_t{255}) && is_none("256", std::uint8_t{}) && is_none("-1", std::uint8_t{})));
    CHECK(is("0", 0));
    for (auto const* text : {"", "-", "00", "01", "-0", "-01", "+1", " 1", "1 ", "1.0", "0x10", "1:"})
        CHECK(is_none(text, 0));
}

TEST_CASE("numbers that some readers would round are refused, also in unknown keys") {
    auto const document = parsed(support::descriptors()[0].d);
    for (auto const* path : {"/memories/0/id", "/new/0/deep"}) {
        refuses(with(document, path, 9007199254740993u), {path, "2^53"});
        refuses(with(document, path, -9007199254740993), {path, "2^53"});
        refuses(with(document, path, 1.0), {path, "2^53"});
        refuses(with(document, path, 0.5), {path});
    }
    refuses(R"({"format":"ferry-descriptor","version":{"major":2,"minor":0},"n":18446744073709551616})",
            {"/n", "2^53"});
}

TEST_CASE("a later minor version is read: unknown keys are ignored at every level, and covered by the checksum") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        auto const document = parsed(d);
        std::vector<std::string> paths{""};
        paths_of(document, "", paths);
        for (auto const& path : paths) {
            if (!document[at(path.c_str())].is_object()) continue;
            auto later = document;
            later["version"]["minor"] = 7;
            later[at(path.c_str())]["of a later minor \u00e9\n"] = {{"deep", {1, nullptr, "x", true}}};
            auto const got = read(sealed(later));
            CHECK(got.minor == 7);
            CHECK(got.memories == d.memories);
            CHECK(got.root == d.root);
            CHECK(read(to_json(got)) == d);
            auto changed = json::parse(sealed(later));
            changed[at(path.c_str())]["of a later minor \u00e9\n"]["deep"][3] = false;
            refuses(changed.dump(), {"/checksum"});
        }
    }
}

TEST_CASE("another major version is refused with its number, with any other members") {
    auto other = parsed(support::a_column());
    other["version"] = {{"major", 1}, {"minor", 3}};
    refuses(other.dump(), {"version 1.3", "major"});
    refuses(R"({"version":{"minor":3,"major":1},"format":"ferry-descriptor"})", {"version 1.3"});
}

TEST_CASE("of two equal keys the last is used") {
    auto text = to_json(support::descriptors()[0].d);
    text.insert(1, R"("format":"another",)");
    CHECK(read(text) == support::descriptors()[0].d);
}

TEST_CASE("text that is not JSON, or not a descriptor, is refused") {
    for (auto const* text : {"", "{", "nul", "{\"a\":}", "{} {}", "\"\xff\"", "[1,]", "{\"a\":\"\\ud800\"}"})
        refuses(text, {"the text is not JSON: "});
    for (auto const* text : {"1", "[]", "null", "\"x\""}) refuses(text, {": the document is not an object: "});
    refuses("{}", {"/format is missing"});
    refuses(R"({"format":"other"})", {"/format"});
    refuses(R"({"format":"ferry-descriptor"})", {"/version is missing"});
    refuses(R"({"format":"ferry-descriptor","version":{"major":2,"minor":0}})", {"/checksum is missing"});
}

TEST_CASE("every truncation and every changed character is refused, or changes nothing") {
    auto const d = support::descriptors()[16].d;
    auto const text = to_json(d);
    for (std::size_t size = 0; size < text.size(); ++size) refuses(std::string_view{text}.substr(0, size));
    int refused = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto forged = text;
        forged[i] = static_cast<char>(forged[i] ^ 1);
        try {
            auto const got = read(forged);
            CHECK(got == d);
        } catch (ferry::error const& e) {
            CHECK(e.code() == errc::bad_descriptor);
            ++refused;
        }
    }
    CHECK(refused == static_cast<int>(text.size()));
}

TEST_CASE("the error for a wrong checksum says so") {
    auto document = parsed(support::descriptors()[0].d);
    document["checksum"] = document["checksum"].get<std::uint32_t>() ^ 1;
    refuses(document.dump(), {"/checksum is", "expected"});
    document["checksum"] = 0x1'0000'0000;
    refuses(document.dump(), {"/checksum"});
}

TEST_CASE("a member of another type is refused with its JSON pointer, or read as absent") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        auto const document = parsed(d);
        std::vector<std::string> paths;
        paths_of(document, "", paths);
        for (auto const& path : paths) {
            auto const& was = document[at(path.c_str())];
            for (auto const& other : {json(nullptr), json("no"), json(-1), json(true), json::array(), json::object(),
                                      json::array({1, "x"})}) {
                if (other.type_name() == std::string{was.type_name()} || path == "/checksum") continue;
                INFO(path, " becomes ", other.dump());
                try {
                    check(read(with(document, path.c_str(), other)));
                    bool const may = (other.is_null() && (path.ends_with("strides") || path.ends_with("dictionary") ||
                                                          path.find("/buffers/") != path.npos)) ||
                                     other == -1 || other.is_array();
                    CHECK(may);
                } catch (ferry::error const& e) {
                    CHECK(e.code() == errc::bad_descriptor);
                }
            }
        }
    }
    auto const host = parsed(support::descriptors()[1].d), column = parsed(support::a_column());
    for (auto const* path :
         {"/from/pid", "/memories/0/length", "/tensor/shape/0", "/tensor/dtype/code", "/tensor/memory"}) {
        refuses(with(host, path, "x"), {path, "is not an integer from"});
        refuses(with(host, path, true), {path});
    }
    refuses(with(host, "/tensor/dtype/bits", 256), {"/tensor/dtype/bits", "0 to 255"});
    refuses(with(host, "/tensor/memory", -1), {"/tensor/memory", "0 to 4294967295"});
    refuses(with(host, "/memories/0/length", "18446744073709551616"), {"/memories/0/length"});
    refuses(with(host, "/memories/0/kind", "other"), {"/memories/0/kind"});
    refuses(with(host, "/memories/0/kind", 1), {"/memories/0/kind is not a string"});
    refuses(with(host, "/memories/0/handle", "abc"), {"/memories/0/handle", "hexadecimal"});
    refuses(with(host, "/memories/0/handle", "zz"), {"/memories/0/handle", "hexadecimal"});
    refuses(with(host, "/memories/0/device/uuid", "00000000000000000000000000000000"),
            {"/memories/0/device/uuid", "UUID"});
    refuses(with(host, "/from/boot_id", "00000000-0000-0000-0000-00000000000g"), {"/from/boot_id"});
    refuses(with(host, "/tensor/shape", json::object()), {"/tensor/shape is not an array"});
    refuses(with(host, "/memories", json::object()), {"/memories is not an array"});
    refuses(with(column, "/column/children/1/dictionary/buffers/1/length", 2000),
            {"/column/children/1/dictionary/buffers/1", "range of 1024"});
}

TEST_CASE("a missing required member is named in the error; the others have defaults") {
    constexpr char const* optional[] = {"name",     "handle",     "ready",  "strides",  "flags",
                                        "metadata", "null_count", "offset", "children", "dictionary"};
    int missed = 0, left_out = 0;
    for (auto const& [name, d] : support::descriptors()) {
        auto const document = parsed(d);
        std::vector<std::string> paths;
        paths_of(document, "", paths);
        for (auto const& path : paths) {
            auto const pointer = at(path.c_str());
            if (!document[pointer.parent_pointer()].is_object() || path == "/checksum") continue;
            auto less = document;
            less[pointer.parent_pointer()].erase(pointer.back());
            bool may = false;
            for (auto const* key : optional) may = may || pointer.back() == key;
            try {
                check(read(sealed(less)));
                ++left_out;
                CHECK(may);
            } catch (ferry::error const& e) {
                CHECK(e.code() == errc::bad_descriptor);
                bool const root = path == "/tensor" || path == "/column";
                if (std::strstr(e.what(), "is missing") != nullptr)
                    CHECK((std::strstr(e.what(), path.c_str()) != nullptr || path.size() > 100));
                else CHECK((may || root));  // required: the handle of CUDA memory, strides that are not compact
                ++missed;
            }
        }
    }
    CHECK(missed > 100);
    CHECK(left_out > 50);
    auto both = parsed(support::a_column());
    both["tensor"] = parsed(support::descriptors()[0].d)["tensor"];
    refuses(sealed(both), {": the document has both /tensor and /column, expected one"});
}

TEST_CASE("a document nested deeper than any descriptor is refused before it is traversed") {
    std::string const many(100'000, '[');
    refuses(many, {"nested deeper"});
    refuses(R"({"a":)" + many, {"nested deeper"});
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
    refuses(objects, {"nested deeper"});
}

TEST_CASE("a tree of 64 nodes is converted to JSON and bytes, and back") {
    node tree{.format = "n"};
    for (int i = 1; i < max_depth; ++i) {
        node above{.format = "+s"};
        above.children.push_back(std::move(tree));
        tree = std::move(above);
    }
    descriptor d;
    d.root = std::move(tree);
    CHECK(read(to_json(d)) == d);
    CHECK(from_bytes(to_bytes(d)) == d);
    node above{.format = "+s"};
    above.children.push_back(std::get<node>(d.root));
    auto document = parsed(d);
    auto parent = parsed({.root = above.children[0].children[0]})["column"];
    parent["children"] = json::array({document["column"]});
    refuses(with(document, "/column", parent), {"deeper than 64"});
}

TEST_CASE("an invalid descriptor is not written") {
    auto d = support::descriptors()[0].d;
    std::get<tensor>(d.root).byte_offset = 1;
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(to_json(d)); }, {"ferry::wire::to_json", "/tensor"});
}
