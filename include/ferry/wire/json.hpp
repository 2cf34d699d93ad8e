// ferry: a descriptor as JSON; docs/schema/descriptor-2.json is the schema. Requires nlohmann/json, and is therefore in
// no umbrella header. If memory runs out, that library may terminate the process, because its destructors allocate.
#pragma once

#include <ferry/wire/check.hpp>
#include <ferry/wire/descriptor.hpp>
#include <ferry/wire/detail/crc32c.hpp>
#include <ferry/wire/detail/hex.hpp>
#include <ferry/wire/detail/place.hpp>

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <source_location>
#include <span>
#include <string>  // the result
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>  // of the descriptor

namespace FERRY_NAMESPACE::wire {
namespace detail {

using json = nlohmann::json;  // objects sort their keys by bytes, that is, by code points

inline constexpr char format_name[] = "ferry-descriptor";
inline constexpr char pass_json[] = ": pass the text that ferry::wire::to_json returned";
/// The largest number: every JSON reader represents it exactly. Larger integers are decimal strings.
inline constexpr std::int64_t largest_number = std::int64_t{1} << 53;
/// The maximum depth of a document; the children of a node are two levels below it. Limits the recursion below.
inline constexpr int max_json_depth = 4 * max_depth;

template <class T>
[[nodiscard]] json written(T const& value);

/// Writes the fields of a struct to an object.
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

/// Returns the checksum of a document without its key `checksum`, in the form of RFC 8785: sorted keys, no white space.
[[nodiscard]] inline std::uint32_t checksum_of(json const& document) {
    auto const text = document.dump(-1, ' ', false, json::error_handler_t::strict);
    return crc32c(std::as_bytes(std::span{text}));
}

/// Reads a value of a parsed document. After an error, the result is unspecified.
class json_value {
   public:
    json_value(json const& value, place const& here, caller const& by) noexcept
        : value_{&value}, here_{here}, by_{&by} {}

    /// Reads a member of an object.
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
                by_->refuse(here_, " is not an integer from ", std::int64_t{(std::numeric_limits<T>::min)()}, " to ",
                            (std::numeric_limits<T>::max)(), sizeof(T) == 8 ? ", as a number or a decimal string" : "");
        } else if constexpr (std::same_as<T, uuid>) {
            if (!from_text(text(), out)) refuse("a UUID of 8, 4, 4, 4 and 12 hexadecimal digits, joined by `-`");
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
    /// Refuses numbers that some JSON readers round, also in unknown keys, because the checksum would differ.
    void check_numbers() const {
        bool const fits = value_->is_number_unsigned()
                              ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(largest_number)
                              : !value_->is_number_integer() || value_->get<std::int64_t>() >= -largest_number;
        if (value_->is_number_float() || !fits) refuse("an integer of at most 2^53; larger ones are decimal strings");
        if (value_->is_array())
            for (std::size_t i = 0; i < value_->size(); ++i) json_value{(*value_)[i], here_ / i, *by_}.check_numbers();
        if (value_->is_object())
            for (auto const& [key, member] : value_->items())
                json_value{member, here_ / key.c_str(), *by_}.check_numbers();
    }

   private:
    /// Returns null if the member is absent, or is null and may be absent.
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

/// Builds a document of limited depth from the events of the parser, which also reports its errors as events. If two
/// keys of an object are equal, the last one is used.
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
    bool binary(json::binary_t&) { return false; }  // not in JSON
    bool start_object(std::size_t) { return put(json::object()); }
    bool start_array(std::size_t) { return put(json::array()); }
    bool key(std::string& key) { return key_ = std::move(key), true; }
    bool end_object() { return open_.pop_back(), true; }
    bool end_array() { return open_.pop_back(), true; }
    bool parse_error(std::size_t, std::string const&, json::exception const& e) {
        return by_.refuse("the text is not JSON: ", e.what(), pass_json);
    }

   private:
    bool put(json value) {
        auto const depth = static_cast<int>(open_.size());
        if (depth > max_json_depth)
            return by_.refuse("the document is nested deeper than ", max_json_depth, pass_json);
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
    if (!json::sax_parse(text, &built)) return d;
    auto& document = built.document;
    json_value const in{document, place{}, by};
    std::string format;
    in({"format"}, format);
    if (format != format_name) return by.refuse("/format is not ", format_name, pass_json), d;
    in({"version"}, [&](auto& v) { v({"major"}, d.major), v({"minor"}, d.minor); });
    if (d.major != major_version) return static_cast<void>(check(d, by)), d;  // the rest has another format
    in.check_numbers();
    std::uint32_t stated = 0;
    in({"checksum"}, stated);
    document.erase("checksum");
    if (auto const found = checksum_of(document); stated != found)
        by.refuse("/checksum is ", stated, ", expected ", found, ": send the document with its values unchanged");
    in({"from"}, d.from), in({"memories"}, d.memories);
    if (bool const both = document.contains("tensor"); both == document.contains("column"))
        by.refuse(place{}, both ? " has both /tensor and /column" : " has neither /tensor nor /column",
                  ", expected one");
    in(optional("tensor"), [&](auto& root) { root.read(d.root.emplace<tensor>()); });
    in(optional("column"), [&](auto& root) { root.read(d.root.emplace<node>()); });
    static_cast<void>(check(d, by));
    return d;
}

}  // namespace detail

/// Encodes a descriptor as JSON, with the minor version of this ferry.
///
/// \param d       descriptor
/// \param indent  number of spaces per level of indentation; -1: one line
/// \return        text; `try_to_json` returns the text or the error
/// \throws error           errc::bad_descriptor, as `check`
/// \throws std::bad_alloc  an allocation failed
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

/// Decodes a descriptor of any minor version of this major version, and checks it with `check`. Keys may have any
/// order; unknown keys are ignored, but belong to the checksum. Time and memory are linear in the size of the text.
///
/// \param text   one document, encoded by `to_json`
/// \return       descriptor; `try_from_json` returns the descriptor or the error
/// \throws error           errc::bad_descriptor: not JSON, another major version, a missing or malformed member, a
/// wrong
///                         checksum, or an error of `check`; the message names the member by its JSON pointer
/// \throws std::bad_alloc  an allocation failed
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

}  // namespace FERRY_NAMESPACE::wire
