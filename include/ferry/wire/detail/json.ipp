// ferry: the engine of wire/json.hpp.
#pragma once

#include <ferry/wire/json.hpp>

#include <ferry/wire/check.hpp>
#include <ferry/wire/detail/crc32c.hpp>
#include <ferry/wire/detail/hex.hpp>
#include <ferry/wire/detail/place.hpp>

#include <map>
#include <utility>

namespace FERRY_NAMESPACE::wire {
namespace detail {

/// Collects the members of an object, sorted by their keys, from the calls of `fields`.
struct json_object {
    std::map<std::string_view, std::string> members{};

    void operator()(char const* key, auto const& value);
    [[nodiscard]] std::string text() const {
        std::string out = "{";
        for (auto const& [key, value] : members) {
            if (out.size() > 1) out += ',';
            out.append(1, '"').append(key).append("\":").append(value);
        }
        return out += '}';
    }
};

/// Quotes a text, which `check` has found to be UTF-8.
[[nodiscard]] inline std::string json_string(std::string_view text) {
    constexpr std::string_view escaped = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    std::string out = "\"";
    for (char const c : text) {
        if (auto const at = escaped.find(c); at != escaped.npos) out.append(1, '\\').append(1, letters[at]);
        else if (static_cast<unsigned char>(c) >= 0x20) out += c;
        else out.append("\\u00").append(to_hex(std::as_bytes(std::span{&c, 1})));
    }
    return out += '"';
}

/// Returns a number that every reader represents exactly, otherwise a decimal string.
template <std::integral T>
[[nodiscard]] std::string number(T value) {
    constexpr std::int64_t largest = std::int64_t{1} << 53;
    bool const is_exact = std::cmp_less_equal(value, largest) && std::cmp_greater_equal(value, -largest);
    auto const digits = std::to_string(value);
    return is_exact ? digits : json_string(digits);
}

template <class T>
[[nodiscard]] std::string json_of(T const& value) {
    if constexpr (std::same_as<T, memory_kind>) {
        return json_string(name(value));
    } else if constexpr (std::same_as<T, flags>) {
        return number(static_cast<std::uint64_t>(known(value)));
    } else if constexpr (std::is_enum_v<T>) {
        return number(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::integral<T>) {
        return number(value);
    } else if constexpr (std::same_as<T, uuid>) {
        return json_string(to_text(value));
    } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
        return json_string(to_hex(value));
    } else if constexpr (requires { value.index(); }) {
        json_object out;
        std::visit([&](auto const& one) { out(root_name(value), one); }, value);
        return out.text();
    } else if constexpr (std::convertible_to<T const&, std::string_view>) {
        return json_string(value);
    } else if constexpr (requires { value.size(); }) {
        std::string out = "[";
        for (auto const& item : value) out.append(out.size() > 1 ? "," : "").append(json_of(item));
        return out += ']';
    } else {
        json_object out;
        if constexpr (std::invocable<T const&, json_object&>) value(out);
        else T::fields(value, out);
        if constexpr (std::same_as<T, slice>)
            if (value.memory == no_memory) return "null";
        if constexpr (std::same_as<T, tensor>)
            if (value.strides.empty()) out.members["strides"] = "null";
        if constexpr (std::same_as<T, node>) {
            out("children", value.children);
            out.members["dictionary"] = value.dictionary.empty() ? "null" : json_of(value.dictionary.front());
        }
        return out.text();
    }
}

void json_object::operator()(char const* key, auto const& value) { members[key] = json_of(value); }

[[nodiscard]] inline std::string write_json(descriptor const& d, caller by) {
    if (!check(d, by)) return {};
    json_object out;
    out("format", std::string_view{"ferry-descriptor"});
    out("version", [](auto& v) { v("major", major_version), v("minor", minor_version); });
    out("from", d.from), out("memories", d.memories);
    std::visit([&](auto const& root) { out(root_name(d.root), root); }, d.root);
    auto const text = out.text();  // without the checksum, which covers it
    out("checksum", crc32c(std::as_bytes(std::span{text})));
    return out.text();
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE std::string to_json(descriptor const& d, std::source_location where) {
    return detail::write_json(d, {"ferry::wire::to_json", where});
}
#endif
FERRY_INLINE result<std::string> try_to_json(descriptor const& d, std::source_location where) {
    return ferry::detail::attempt<std::string>("ferry::wire::to_json", where,
                                               [&](detail::caller by) { return detail::write_json(d, by); });
}

}  // namespace FERRY_NAMESPACE::wire
