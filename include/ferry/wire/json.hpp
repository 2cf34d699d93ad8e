// ferry: a descriptor as JSON, for readers in other languages and for people. docs/schema/descriptor-2.json is its
// schema. The only header that needs nlohmann/json, and part of no umbrella. Where memory runs out that library may end
// the process, for its destructors allocate; the binary form only throws std::bad_alloc.
// length: both directions of one format, of which every field stands here once for each.
#pragma once

#include <ferry/wire/check.hpp>
#include <ferry/wire/crc32c.hpp>
#include <ferry/wire/descriptor.hpp>
#include <ferry/wire/detail/hex.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <source_location>
#include <span>
#include <string>  // what to_json returns
#include <string_view>
#include <utility>
#include <variant>
#include <vector>  // as in the descriptor

namespace ferry::inline FERRY_ABI_NAMESPACE::wire {
namespace detail {

using json = nlohmann::json;  // objects sort their keys by bytes, which is by code point

/// The largest integer that every reader's numbers hold; above it integers are decimal strings.
inline constexpr std::int64_t largest_number = std::int64_t{1} << 53;
/// How deep a document may be: a node's children are two levels below it. Bounds the recursion of what walks it.
inline constexpr int max_json_depth = 4 * max_depth;

[[nodiscard]] inline json number(std::uint64_t n) {
    return n <= static_cast<std::uint64_t>(largest_number) ? json(n) : json(std::to_string(n));
}
[[nodiscard]] inline json number(std::int64_t n) {
    return n <= largest_number && n >= -largest_number ? json(n) : json(std::to_string(n));
}
[[nodiscard]] inline json numbers(std::vector<std::int64_t> const& list) {
    json out = json::array();
    for (auto const n : list) out.push_back(number(n));
    return out;
}

[[nodiscard]] inline json written(memory const& m) {
    return {{"kind", name(m.kind)},
            {"device", {{"type", static_cast<int>(m.type)}, {"uuid", to_text(m.device)}}},
            {"id", number(m.id)},
            {"allocation", number(m.allocation)},
            {"offset", number(m.offset)},
            {"length", number(m.length)},
            {"name", m.name},
            {"handle", to_hex(m.handle)},
            {"ready", to_hex(m.ready)}};
}

[[nodiscard]] inline json written(tensor const& t) {
    auto const type = t.dtype.to_abi();
    return {{"dtype", {{"code", type.code}, {"bits", type.bits}, {"lanes", type.lanes}}},
            {"shape", numbers(t.shape)},
            {"strides", t.strides.empty() ? json(nullptr) : numbers(t.strides)},
            {"byte_offset", number(t.byte_offset)},
            {"flags", number(static_cast<std::uint64_t>(known(t.flags)))},
            {"memory", t.memory}};
}

[[nodiscard]] inline json written(node const& n) {
    json buffers = json::array(), children = json::array();
    for (auto const& b : n.buffers)
        buffers.push_back(b.memory == no_memory
                              ? json(nullptr)
                              : json{{"memory", b.memory}, {"offset", number(b.offset)}, {"length", number(b.length)}});
    for (auto const& child : n.children) children.push_back(written(child));
    json out = {{"format", n.format},
                {"name", n.name},
                {"metadata", to_hex(n.metadata)},
                {"length", number(n.length)},
                {"null_count", number(n.null_count)},
                {"offset", number(n.offset)},
                {"flags", number(n.flags)},
                {"dictionary", nullptr}};
    out["buffers"] = std::move(buffers);
    out["children"] = std::move(children);
    if (!n.dictionary.empty()) out["dictionary"] = written(n.dictionary.front());
    return out;
}

/// What the checksum covers: the document without it, keys sorted, no spaces, as UTF-8 (RFC 8785, of which only
/// integers occur).
[[nodiscard]] inline std::uint32_t checksum_of(json const& document) {
    auto const text = document.dump(-1, ' ', false, json::error_handler_t::strict);
    return crc32c(std::as_bytes(std::span{text}));
}

/// A value of a parsed document, and where it stands. After an error it may give any value.
class json_value {
   public:
    json_value(json const& value, place const& here, caller const& by) noexcept
        : value_{&value}, here_{here}, by_{&by} {}

    /// A member that must be there.
    [[nodiscard]] json_value operator[](char const* key) const {
        if (!value_->is_object()) refuse("an object");
        auto const at = value_->find(key);
        bool const is_there = at != value_->end() || by_->refuse(here_ / key, " is missing");
        return {is_there ? *at : *value_, here_ / key, *by_};
    }
    [[nodiscard]] bool has(char const* key) const {
        if (!value_->is_object()) refuse("an object");
        return value_->contains(key);
    }
    [[nodiscard]] bool is_null() const noexcept { return value_->is_null(); }
    [[nodiscard]] std::string_view text() const {
        if (!value_->is_string()) return refuse("a string"), std::string_view{};
        return value_->get_ref<std::string const&>();
    }
    [[nodiscard]] std::vector<std::byte> bytes() const {
        std::vector<std::byte> out;
        if (!from_hex(text(), out)) refuse("a string of pairs of hexadecimal digits");
        return out;
    }
    [[nodiscard]] uuid id() const {
        uuid out{};
        if (!from_text(text(), out)) refuse("a UUID: 8, 4, 4, 4 and 12 hexadecimal digits, joined by `-`");
        return out;
    }
    /// An integer of this type: a number, or, where it may be too large for one, a decimal string.
    template <std::integral T>
    [[nodiscard]] T integer() const {
        T out = 0;
        if (value_->is_number_unsigned() && std::in_range<T>(value_->get<std::uint64_t>()))
            return static_cast<T>(value_->get<std::uint64_t>());
        if (value_->is_number_integer() && !value_->is_number_unsigned() &&
            std::in_range<T>(value_->get<std::int64_t>()))
            return static_cast<T>(value_->get<std::int64_t>());
        bool const may_be_text = sizeof(T) == 8 && value_->is_string();
        if (!may_be_text || !from_decimal(value_->get_ref<std::string const&>(), out))
            by_->refuse(here_, " is no integer from ", std::int64_t{(std::numeric_limits<T>::min)()}, " to ",
                        std::uint64_t{(std::numeric_limits<T>::max)()},
                        sizeof(T) == 8 ? ": a number, or a decimal string" : "");
        return out;
    }
    /// Calls `f` with each item of an array.
    template <class F>
    void for_each(F f) const {
        if (!value_->is_array()) return refuse("an array");
        for (std::size_t i = 0; i < value_->size(); ++i) f(json_value{(*value_)[i], here_ / i, *by_});
    }
    [[nodiscard]] std::vector<std::int64_t> integers() const {
        std::vector<std::int64_t> out;
        for_each([&](json_value const& item) { out.push_back(item.integer<std::int64_t>()); });
        return out;
    }
    /// Numbers that some readers would round are refused wherever they stand: what such a reader passes on has another
    /// checksum.
    void check_numbers() const {
        bool const fits = value_->is_number_unsigned()
                              ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(largest_number)
                              : !value_->is_number_integer() || value_->get<std::int64_t>() >= -largest_number;
        // mutant: wire_json_numbers
        if (value_->is_number_float() || !fits) refuse("an integer up to 2^53; larger ones are decimal strings");
        if (value_->is_array()) for_each([](json_value const& item) { item.check_numbers(); });
        if (value_->is_object())
            for (auto const& [key, member] : value_->items())
                json_value{member, here_ / key.c_str(), *by_}.check_numbers();
    }

   private:
    FERRY_COLD void refuse(char const* wanted) const { by_->refuse(here_, " is not ", wanted); }

    json const* value_;
    place here_;
    caller const* by_;
};

[[nodiscard]] inline memory read_memory(json_value const& in) {
    memory m;
    auto const kind = in["kind"].text();
    m.kind = memory_kind{0xff};
    for (auto const known :
         {memory_kind::none, memory_kind::host_shared, memory_kind::cuda_legacy, memory_kind::cuda_pool})
        if (kind == name(known)) m.kind = known;
    m.type = device_type{in["device"]["type"].integer<std::int32_t>()};
    m.device = in["device"]["uuid"].id();
    m.id = in["id"].integer<std::uint64_t>();
    m.allocation = in["allocation"].integer<std::uint64_t>();
    m.offset = in["offset"].integer<std::uint64_t>();
    m.length = in["length"].integer<std::uint64_t>();
    if (in.has("name")) m.name = in["name"].text();
    if (in.has("handle")) m.handle = in["handle"].bytes();
    if (in.has("ready")) m.ready = in["ready"].bytes();
    return m;
}

[[nodiscard]] inline tensor read_tensor(json_value const& in) {
    tensor t;
    auto const type = in["dtype"];
    t.dtype = {type_code{type["code"].integer<std::uint8_t>()}, type["bits"].integer<std::uint8_t>(),
               type["lanes"].integer<std::uint16_t>()};
    t.shape = in["shape"].integers();
    if (in.has("strides") && !in["strides"].is_null()) t.strides = in["strides"].integers();
    t.byte_offset = in["byte_offset"].integer<std::int64_t>();
    if (in.has("flags")) t.flags = known(flags{in["flags"].integer<std::uint64_t>()});
    t.memory = in["memory"].integer<std::uint32_t>();
    return t;
}

[[nodiscard]] inline node read_node(json_value const& in) {
    node n;
    n.format = in["format"].text();
    if (in.has("name")) n.name = in["name"].text();
    if (in.has("metadata")) n.metadata = in["metadata"].bytes();
    n.length = in["length"].integer<std::int64_t>();
    if (in.has("null_count")) n.null_count = in["null_count"].integer<std::int64_t>();
    if (in.has("offset")) n.offset = in["offset"].integer<std::int64_t>();
    if (in.has("flags")) n.flags = in["flags"].integer<std::int64_t>();
    in["buffers"].for_each([&](json_value const& b) {
        auto& out = n.buffers.emplace_back();
        if (!b.is_null())
            out = {b["memory"].integer<std::uint32_t>(), b["offset"].integer<std::uint64_t>(),
                   b["length"].integer<std::uint64_t>()};
    });
    if (in.has("children"))
        in["children"].for_each([&](json_value const& child) { n.children.push_back(read_node(child)); });
    if (in.has("dictionary") && !in["dictionary"].is_null()) n.dictionary.push_back(read_node(in["dictionary"]));
    return n;
}

/// Builds a document of bounded depth from the events of nlohmann's parser, whose errors are an event. Of two equal
/// keys the last counts, as with most readers.
class json_builder {
   public:
    explicit json_builder(caller const& by) noexcept : by_{by} {}
    json document{};

    bool null() { return put(nullptr) != nullptr; }
    bool boolean(bool value) { return put(value) != nullptr; }
    bool number_integer(json::number_integer_t value) { return put(value) != nullptr; }
    bool number_unsigned(json::number_unsigned_t value) { return put(value) != nullptr; }
    bool number_float(json::number_float_t value, std::string const&) { return put(value) != nullptr; }
    bool string(std::string& value) { return put(std::move(value)) != nullptr; }
    bool binary(json::binary_t&) { return false; }  // no event of JSON
    bool start_object(std::size_t) { return open(json::object()); }
    bool start_array(std::size_t) { return open(json::array()); }
    bool key(std::string& key) { return key_ = std::move(key), true; }
    bool end_object() { return open_.pop_back(), true; }
    bool end_array() { return open_.pop_back(), true; }
    bool parse_error(std::size_t, std::string const&, json::exception const& e) {
        return by_.refuse("this is no JSON: ", e.what());
    }

   private:
    /// Null where the document is too deep.
    json* put(json value) {
        auto const depth = static_cast<int>(open_.size());
        if (depth > max_json_depth)  // mutant: wire_json_depth
            return by_.refuse("the document is nested deeper than ", max_json_depth), nullptr;
        json& to = depth == 0                 ? document
                   : open_.back()->is_array() ? open_.back()->emplace_back()
                                              : (*open_.back())[key_];
        to = std::move(value);
        return &to;
    }
    bool open(json value) {
        auto* const at = put(std::move(value));
        open_.push_back(at);
        return at != nullptr;
    }

    caller by_;
    std::string key_{};
    std::vector<json*> open_{};  // arrays and objects that have not ended, from the outermost
};

[[nodiscard]] inline std::string write_json(descriptor const& d, int indent, caller by) {
    if (!check(d, by)) return {};
    json out = {
        {"format", "ferry-descriptor"},
        {"version", {{"major", major_version}, {"minor", minor_version}}},
        {"from",
         {{"pid", d.from.pid}, {"pid_namespace", number(d.from.pid_namespace)}, {"boot_id", to_text(d.from.boot_id)}}}};
    auto& memories = out["memories"] = json::array();
    for (auto const& m : d.memories) memories.push_back(written(m));
    if (auto const* t = std::get_if<tensor>(&d.root)) out["tensor"] = written(*t);
    if (auto const* n = std::get_if<node>(&d.root)) out["column"] = written(*n);
    out["checksum"] = checksum_of(out);
    return out.dump(indent);
}

[[nodiscard]] inline descriptor read_json(std::string_view text, caller by) {
    descriptor d;
    json_builder built{by};
    if (!json::sax_parse(text.begin(), text.end(), &built)) return d;
    json_value const in{built.document, place{}, by};
    if (in["format"].text() != "ferry-descriptor")
        return by.refuse("/format is not ferry-descriptor: this is another document"), d;
    d.major = in["version"]["major"].integer<std::uint16_t>();
    d.minor = in["version"]["minor"].integer<std::uint16_t>();
    if (d.major != major_version) return static_cast<void>(check(d, by)), d;  // the rest may be anything
    in.check_numbers();
    auto const said = in["checksum"].integer<std::uint32_t>();
    built.document.erase("checksum");
    if (auto const found = checksum_of(built.document); said != found)  // mutant: wire_json_checksum
        by.refuse("/checksum is ", said, ", and the rest of the document gives ", found, ": changed on the way");
    auto const from = in["from"];
    d.from = {from["pid"].integer<std::uint32_t>(), from["pid_namespace"].integer<std::uint64_t>(),
              from["boot_id"].id()};
    in["memories"].for_each([&](json_value const& m) { d.memories.push_back(read_memory(m)); });
    if (in.has("tensor") == in.has("column")) by.refuse("the document must have one of /tensor and /column");
    if (in.has("tensor")) d.root = read_tensor(in["tensor"]);
    else if (in.has("column")) d.root = read_node(in["column"]);
    static_cast<void>(check(d, by));
    return d;
}

}  // namespace detail

/// The descriptor as JSON, of this ferry's minor version. Pure.
///
/// \param d       descriptor
/// \param indent  number of spaces of an indentation; -1: one line
/// \param where   source location of the caller
/// \return        text; `try_to_json` returns the text or the error
/// \throws error  errc::bad_descriptor, as `check`: what would not be read is not written. std::bad_alloc.
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline std::string to_json(descriptor const& d, int indent = -1,
                                         std::source_location where = std::source_location::current()) {
    return detail::write_json(d, indent, {"ferry::wire::to_json", where});
}
#endif
[[nodiscard]] inline result<std::string> try_to_json(descriptor const& d, int indent = -1,
                                                     std::source_location where = std::source_location::current()) {
    return ferry::detail::attempt<std::string>("ferry::wire::to_json", where,
                                               [&](detail::caller by) { return detail::write_json(d, indent, by); });
}

/// The descriptor in a text of JSON, in any order and indentation, of any minor version of this major; keys that it
/// does not know are covered by the checksum and otherwise ignored. Checked by `check`, so that what comes out is safe
/// to open. Pure; time and memory are linear in the text.
///
/// \param text   text
/// \param where  source location of the caller
/// \return       descriptor; `try_from_json` returns the descriptor or the error
/// \throws error  errc::bad_descriptor: no JSON, another major, a missing or wrong member, a wrong checksum, a bound
///                that does not hold; the message has a JSON pointer to it. std::bad_alloc.
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline descriptor from_json(std::string_view text,
                                          std::source_location where = std::source_location::current()) {
    return detail::read_json(text, {"ferry::wire::from_json", where});
}
#endif
[[nodiscard]] inline result<descriptor> try_from_json(std::string_view text,
                                                      std::source_location where = std::source_location::current()) {
    return ferry::detail::attempt<descriptor>("ferry::wire::from_json", where,
                                              [&](detail::caller by) { return detail::read_json(text, by); });
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire
