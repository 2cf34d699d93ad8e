// ferry: a descriptor as JSON, for readers in other languages and for people. docs/schema/descriptor-2.json is its
// schema. The only header that needs nlohmann/json, and part of no umbrella. Where memory runs out that library may end
// the process, for its destructors allocate; the binary form only throws std::bad_alloc.
// length: both directions of one format, and the parser of its text.
#pragma once

#include <ferry/wire/check.hpp>
#include <ferry/wire/crc32c.hpp>
#include <ferry/wire/descriptor.hpp>
#include <ferry/wire/detail/hex.hpp>

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <source_location>
#include <span>
#include <string>  // what to_json returns
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>  // as in the descriptor

namespace ferry::inline FERRY_ABI_NAMESPACE::wire {
namespace detail {

using json = nlohmann::json;  // objects sort their keys by bytes, which is by code point

inline constexpr char format_name[] = "ferry-descriptor";
/// The largest integer that every reader's numbers hold; above it integers are decimal strings.
inline constexpr std::int64_t largest_number = std::int64_t{1} << 53;
/// How deep a document may be: a node's children are two levels below it. Bounds the recursion of what walks it.
inline constexpr int max_json_depth = 4 * max_depth;

template <class T>
[[nodiscard]] json written(T const& value);

/// An object with the fields of a struct.
struct json_object {
    json members = json::object();

    template <class T>
    void operator()(key k, T const& value) {
        auto& member = members[k.name] = written(value);
        if constexpr (requires { value.empty(); })
            if (k.is == key::nullable && value.empty()) member = nullptr;
    }
};

template <class T>
json written(T const& value) {
    if constexpr (std::same_as<T, memory_kind>) {
        return name(value);
    } else if constexpr (std::same_as<T, flags>) {
        return written(static_cast<std::uint64_t>(known(value)));
    } else if constexpr (std::is_enum_v<T>) {
        return static_cast<std::underlying_type_t<T>>(value);
    } else if constexpr (std::integral<T>) {
        bool const fits = std::cmp_less_equal(value, largest_number) && std::cmp_greater_equal(value, -largest_number);
        return fits ? json(value) : json(std::to_string(value));
    } else if constexpr (std::same_as<T, uuid>) {
        return to_text(value);
    } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
        return to_hex(value);
    } else if constexpr (std::convertible_to<T const&, std::string_view>) {
        return value;
    } else if constexpr (requires { value.size(); }) {
        json out = json::array();
        for (auto const& item : value) out.push_back(written(item));
        return out;
    } else {
        if constexpr (std::same_as<T, slice>)
            if (value.memory == no_memory) return nullptr;
        json_object out;
        if constexpr (std::invocable<T const&, json_object&>) value(out);
        else T::fields(value, out);
        if constexpr (std::same_as<T, node>) {
            out({"children"}, value.children);
            out.members["dictionary"] = value.dictionary.empty() ? json(nullptr) : written(value.dictionary.front());
        }
        return std::move(out.members);
    }
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

    /// A member of an object.
    template <class T>
    void operator()(key k, T&& field) const {
        if (auto const* const member = find(k)) json_value{*member, here_ / k.name, *by_}.read(field);
    }
    template <class T>
    void read(T& out) const {
        if constexpr (std::same_as<T, memory_kind>) {
            out = memory_kind{0xff};
            for (auto const known :
                 {memory_kind::none, memory_kind::host_shared, memory_kind::cuda_legacy, memory_kind::cuda_pool})
                if (text() == name(known)) out = known;
        } else if constexpr (std::is_enum_v<T>) {
            std::underlying_type_t<T> number{};
            read(number), out = T{number};
            if constexpr (std::same_as<T, flags>) out = known(out);
        } else if constexpr (std::integral<T>) {
            bool fits = false;
            if (auto const* n = value_->get_ptr<json::number_unsigned_t const*>())
                fits = std::in_range<T>(*n), out = static_cast<T>(*n);
            else if (auto const* i = value_->get_ptr<json::number_integer_t const*>())
                fits = std::in_range<T>(*i), out = static_cast<T>(*i);
            else if (sizeof(T) == 8 && value_->is_string()) fits = from_decimal(text(), out);
            if (!fits)
                by_->refuse(here_, " is no integer from ", std::int64_t{(std::numeric_limits<T>::min)()}, " to ",
                            std::uint64_t{(std::numeric_limits<T>::max)()},
                            sizeof(T) == 8 ? ": a number, or a decimal string" : "");
        } else if constexpr (std::same_as<T, uuid>) {
            if (!from_text(text(), out)) refuse("a UUID: 8, 4, 4, 4 and 12 hexadecimal digits, joined by `-`");
        } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
            if (!from_hex(text(), out)) refuse("a string of pairs of hexadecimal digits");
        } else if constexpr (std::same_as<T, std::string>) {
            out = text();
        } else if constexpr (requires { out.emplace_back(); }) {
            if (!value_->is_array()) return refuse("an array");
            for (auto const& item : *value_) json_value{item, here_ / out.size(), *by_}.read(out.emplace_back());
        } else {
            if constexpr (std::same_as<T, slice>)
                if (value_->is_null()) return;
            if constexpr (std::invocable<T&, json_value const&>) out(*this);
            else T::fields(out, *this);
            if constexpr (std::same_as<T, node>) {
                (*this)(optional("children"), out.children);
                (*this)(nullable("dictionary"), [&](auto& in) { in.read(out.dictionary.emplace_back()); });
            }
        }
    }
    /// Numbers that some readers would round are refused wherever they stand: what such a reader passes on has another
    /// checksum.
    void check_numbers() const {
        bool const fits = value_->is_number_unsigned()
                              ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(largest_number)
                              : !value_->is_number_integer() || value_->get<std::int64_t>() >= -largest_number;
        // mutant: wire_json_numbers
        if (value_->is_number_float() || !fits) refuse("an integer up to 2^53; larger ones are decimal strings");
        if (value_->is_array())
            for (std::size_t i = 0; i < value_->size(); ++i) json_value{(*value_)[i], here_ / i, *by_}.check_numbers();
        if (value_->is_object())
            for (auto const& [key, member] : value_->items())
                json_value{member, here_ / key.c_str(), *by_}.check_numbers();
    }

   private:
    /// Null where the member is missing or null, and may be.
    [[nodiscard]] FERRY_NOINLINE json const* find(key k) const {
        if (!value_->is_object()) return refuse("an object"), nullptr;
        auto const at = value_->find(k.name);
        if (at == value_->end() && k.is == key::required) by_->refuse(here_ / k.name, " is missing");
        return at == value_->end() || (k.is == key::nullable && at->is_null()) ? nullptr : &*at;
    }
    [[nodiscard]] std::string_view text() const {
        if (!value_->is_string()) return refuse("a string"), std::string_view{};
        return value_->get_ref<std::string const&>();
    }
    FERRY_COLD void refuse(char const* wanted) const { by_->refuse(here_, " is not ", wanted); }

    json const* value_;
    place here_;
    caller const* by_;
};

/// Builds a document of bounded depth from the events of nlohmann's parser, whose errors are an event. Of two equal
/// keys the last counts, as with most readers.
class json_builder {
   public:
    explicit json_builder(caller const& by) noexcept : by_{by} {}
    json document{};

    bool null() { return put(nullptr); }
    bool boolean(bool value) { return put(value); }
    bool number_integer(json::number_integer_t value) { return put(value); }
    bool number_unsigned(json::number_unsigned_t value) { return put(value); }
    bool number_float(json::number_float_t value, std::string const&) { return put(value); }
    bool string(std::string& value) { return put(std::move(value)); }
    bool binary(json::binary_t&) { return false; }  // no event of JSON
    bool start_object(std::size_t) { return put(json::object()); }
    bool start_array(std::size_t) { return put(json::array()); }
    bool key(std::string& key) { return key_ = std::move(key), true; }
    bool end_object() { return open_.pop_back(), true; }
    bool end_array() { return open_.pop_back(), true; }
    bool parse_error(std::size_t, std::string const&, json::exception const& e) {
        return by_.refuse("this is no JSON: ", e.what());
    }

   private:
    bool put(json value) {
        auto const depth = static_cast<int>(open_.size());
        if (depth > max_json_depth)  // mutant: wire_json_depth
            return by_.refuse("the document is nested deeper than ", max_json_depth);
        json& to = depth == 0                 ? document
                   : open_.back()->is_array() ? open_.back()->emplace_back()
                                              : (*open_.back())[key_];
        to = std::move(value);
        if (to.is_structured()) open_.push_back(&to);
        return true;
    }

    caller by_;
    std::string key_{};
    std::vector<json*> open_{};  // arrays and objects that have not ended, from the outermost
};

[[nodiscard]] inline std::string write_json(descriptor const& d, int indent, caller by) {
    if (!check(d, by)) return {};
    json_object out;
    out({"format"}, std::string_view{format_name});
    out({"version"}, [](auto& v) { v({"major"}, major_version), v({"minor"}, minor_version); });
    out({"from"}, d.from), out({"memories"}, d.memories);
    if (auto const* t = std::get_if<tensor>(&d.root)) out({"tensor"}, *t);
    if (auto const* n = std::get_if<node>(&d.root)) out({"column"}, *n);
    out({"checksum"}, checksum_of(out.members));
    return out.members.dump(indent);
}

[[nodiscard]] inline descriptor read_json(std::string_view text, caller by) {
    descriptor d;
    json_builder built{by};
    if (!json::sax_parse(text.begin(), text.end(), &built)) return d;
    json_value const in{built.document, place{}, by};
    std::string format;
    in({"format"}, format);
    if (format != format_name) return by.refuse("/format is not ferry-descriptor: this is another document"), d;
    in({"version"}, [&](auto& v) { v({"major"}, d.major), v({"minor"}, d.minor); });
    if (d.major != major_version) return static_cast<void>(check(d, by)), d;  // the rest may be anything
    in.check_numbers();
    std::uint32_t said = 0;
    in({"checksum"}, said);
    built.document.erase("checksum");
    if (auto const found = checksum_of(built.document); said != found)  // mutant: wire_json_checksum
        by.refuse("/checksum is ", said, ", and the rest of the document gives ", found, ": changed on the way");
    in({"from"}, d.from), in({"memories"}, d.memories);
    if (built.document.contains("tensor") == built.document.contains("column"))
        by.refuse("the document must have one of /tensor and /column");
    in(optional("tensor"), [&](auto& root) { root.read(d.root.emplace<tensor>()); });
    in(optional("column"), [&](auto& root) { root.read(d.root.emplace<node>()); });
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
