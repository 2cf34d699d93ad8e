// ferry: the engine of wire/binary.hpp: a writer and a reader of little-endian values, and the records of a descriptor.
#pragma once

#include <ferry/wire/binary.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/detail/crc32c.hpp>
#include <ferry/wire/detail/place.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace FERRY_NAMESPACE::wire {
namespace detail {

/// Converts the bytes of a number between the order in memory and little-endian order.
template <std::size_t Size>
[[nodiscard]] constexpr std::array<std::byte, Size> little_endian(std::array<std::byte, Size> number) noexcept {
    if constexpr (std::endian::native == std::endian::big) std::ranges::reverse(number);
    return number;
}

/// Appends values to bytes: numbers, texts, lists, structs with `fields`, and functions that append more.
class writer {
   public:
    explicit writer(caller const& by) : by_{by} { bytes_.reserve(256); }

    void operator()(char const*, auto const& value) { put(value); }

    template <class T>
    void put(T const& value) {
        if constexpr (std::same_as<T, flags>) {
            put(static_cast<std::uint64_t>(known(value)));
        } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
            put_raw(little_endian(std::bit_cast<std::array<std::byte, sizeof(T)>>(value)));
        } else if constexpr (std::same_as<T, uuid>) {
            put_raw(std::as_bytes(std::span{value}));
        } else if constexpr (std::same_as<T, std::string>) {
            put_size(value.size()), put_raw(std::as_bytes(std::span{value}));
        } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
            put_size(value.size()), put_raw(value);
        } else if constexpr (std::invocable<T const&, writer&>) {
            value(*this);
        } else if constexpr (requires { T::fields(value, *this); }) {
            T::fields(value, *this);
        } else {
            put_size(value.size());
            for (auto const& item : value) put(item);
        }
    }
    /// Appends a tag, a length, and a value of that length.
    void put_record(auto tag, auto const& value) {
        put(tag), put(std::uint32_t{0});
        auto const begin = bytes_.size();
        put(value);
        set_size(begin - 4, bytes_.size() - begin);
    }
    /// Replaces the 4 bytes at `at`.
    void set_size(std::size_t at, std::size_t n) {
        if (!std::in_range<std::uint32_t>(n)) refuse_length(n);
        for (std::size_t i = 0; i < 4; ++i) bytes_[at + i] = static_cast<std::byte>(n >> 8 * i & 0xff);
    }

    [[nodiscard]] std::span<std::byte const> written() const noexcept { return bytes_; }
    [[nodiscard]] std::vector<std::byte> release() && noexcept { return std::move(bytes_); }

   private:
    FERRY_NOINLINE void put_raw(std::span<std::byte const> raw) { bytes_.insert(bytes_.end(), raw.begin(), raw.end()); }
    void put_size(std::size_t n) {
        if (!std::in_range<std::uint32_t>(n)) refuse_length(n);
        put(static_cast<std::uint32_t>(n));
    }
    FERRY_COLD void refuse_length(std::uint64_t n) const {
        by_.refuse("a list or record has ", n, " bytes or items, expected at most 2^32 - 1: shorten it");
    }

    caller by_;
    std::vector<std::byte> bytes_{};
};

/// Reads values from the front of bytes. Reading beyond the end is an error. After an error, the reader is at the end,
/// and returns zeros and empty values.
class reader {
   public:
    reader(std::span<std::byte const> all, caller const& by, std::size_t at = 0) noexcept
        : bytes_{all}, by_{by}, at_{at} {}

    [[nodiscard]] bool is_empty() const noexcept { return left() == 0; }
    [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - at_; }

    void operator()(char const* name, auto&& value) { what_ = name, take(value); }

    template <class T>
    void take(T& value) {
        if constexpr (std::integral<T> || std::is_enum_v<T>) {
            std::array<std::byte, sizeof(T)> number{};
            if (auto const raw = take_raw(sizeof(T)); !raw.empty()) std::memcpy(number.data(), raw.data(), sizeof(T));
            value = std::bit_cast<T>(little_endian(number));
            if constexpr (std::same_as<T, flags>) value = known(value);
        } else if constexpr (std::same_as<T, uuid>) {
            for (auto& byte : value) take(byte);
        } else if constexpr (std::same_as<T, std::string>) {
            auto const raw = take_raw(take_count(1));
            value.assign(reinterpret_cast<char const*>(raw.data()), raw.size());
        } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
            auto const raw = take_raw(take_count(1));
            value.assign(raw.begin(), raw.end());
        } else if constexpr (std::invocable<T&, reader&>) {
            value(*this);
        } else if constexpr (requires { T::fields(value, *this); }) {
            T::fields(value, *this);
        } else {
            using item = typename T::value_type;
            std::size_t least = sizeof(item);
            if constexpr (requires { item::least_size; }) least = item::least_size;
            value.resize(take_count(least));
            for (auto& each : value) take(each);
        }
    }
    /// Reads a record. Returns its tag, and a reader of its payload.
    [[nodiscard]] std::pair<std::uint16_t, reader> take_record() {
        std::uint16_t tag = 0;
        what_ = "a record", take(tag);
        auto const length = take_count(1);
        at_ += length;
        return {tag, reader{bytes_.first(at_), by_, at_ - length}};
    }

    template <class... Parts>
    FERRY_COLD void refuse(Parts const&... parts) {
        by_.refuse("at byte ", at_, parts..., ": get a new descriptor from the exporter");
        at_ = bytes_.size();
    }

   private:
    /// Reads a number of items of at least `size` bytes. Fails if they exceed the remaining bytes, so that a caller can
    /// safely allocate them.
    [[nodiscard]] std::size_t take_count(std::size_t size) {
        std::uint32_t count = 0;
        take(count);
        if (count <= left() / size) return count;
        refuse(": truncated: ", what_, " has ", count, " items of ", size, " bytes, and ", left(), " bytes are left");
        return 0;
    }
    [[nodiscard]] std::span<std::byte const> take_raw(std::size_t size) {
        if (size > left()) {
            refuse(": truncated: ", what_, " needs ", size, " bytes, and ", left(), " are left");
            return {};
        }
        at_ += size;
        return bytes_.subspan(at_ - size, size);
    }

    std::span<std::byte const> bytes_;  // the bytes of the whole document, so that `at_` is a position in it
    caller by_;
    std::size_t at_;
    char const* what_ = "a field";
};

/// The tag of a record. The root is a tensor, a column, or a list of their records; a node consists of the records
/// fields, child and dictionary.
enum class tag : std::uint16_t { origin = 1, memory, tensor, column, fields, child, dictionary, list };

inline constexpr std::uint32_t magic = 0x4459'5246;  // "FRYD"
inline constexpr std::size_t header_size = 8, checksum_size = 4;

inline void put(writer& out, node const& n, tag as) {
    out.put_record(as, [&](auto&) {
        out.put_record(tag::fields, n);
        for (auto const& child : n.children) put(out, child, tag::child);
        for (auto const& dictionary : n.dictionary) put(out, dictionary, tag::dictionary);
    });
}

inline void put_root(writer& out, auto const& root) {
    if (auto const* t = std::get_if<tensor>(&root)) return out.put_record(tag::tensor, *t);
    if (auto const* n = std::get_if<node>(&root)) return put(out, *n, tag::column);
    if constexpr (std::variant_size_v<std::remove_cvref_t<decltype(root)>> > 2)
        out.put_record(tag::list, [&](auto&) {
            for (auto const& one : std::get<list>(root)) put_root(out, one);
        });
}

[[nodiscard]] inline node take_node(reader in, int depth) {
    if (depth > max_depth) in.refuse(": the column is deeper than ", max_depth, " nodes");
    node n;
    bool has_fields = false;
    while (!in.is_empty()) {
        auto [what, payload] = in.take_record();
        switch (tag{what}) {
            case tag::fields:
                if (std::exchange(has_fields, true)) payload.refuse(": a node has two records of fields");
                payload.take(n);
                break;
            case tag::child: n.children.push_back(take_node(payload, depth + 1)); break;
            case tag::dictionary: n.dictionary.push_back(take_node(payload, depth + 1)); break;
            default: break;  // of a later minor version
        }
    }
    if (!has_fields) in.refuse(": a node has no record of its fields");
    return n;
}

/// Reads a tensor or a column. Returns false for other records, of a later minor version.
[[nodiscard]] inline bool take_item(tag what, reader& payload, auto& out) {
    if (what == tag::tensor) payload.take(out.template emplace<tensor>());
    else if (what == tag::column) out = take_node(payload, 1);
    else return false;
    return true;
}

[[nodiscard]] inline list take_list(reader in) {
    constexpr std::size_t least_size = 38;  // size of the smallest item, the record of a tensor of rank 0
    list all;
    all.reserve(in.left() / least_size);  // memory linear in the number of bytes
    while (!in.is_empty()) {
        auto [what, payload] = in.take_record();
        list::value_type one;
        if (take_item(tag{what}, payload, one)) all.push_back(std::move(one));
    }
    return all;
}

[[nodiscard]] inline descriptor take_records(reader in, descriptor d) {
    bool has_origin = false, has_root = false;
    while (!in.is_empty()) {
        auto [what, payload] = in.take_record();
        switch (tag{what}) {
            case tag::origin:
                if (std::exchange(has_origin, true)) payload.refuse(": a second record of the origin");
                payload.take(d.from);
                break;
            case tag::memory: payload.take(d.memories.emplace_back()); break;
            case tag::tensor:
            case tag::column:
            case tag::list:
                if (std::exchange(has_root, true)) payload.refuse(": a second tensor, column or list");
                if (!take_item(tag{what}, payload, d.root)) d.root = take_list(payload);
                break;
            default: break;  // of a later minor version
        }
    }
    if (!has_origin || !has_root)
        in.refuse(": the descriptor has no record of ", has_origin ? "a tensor, column or list" : "the origin");
    return d;
}

[[nodiscard]] inline std::vector<std::byte> write_bytes(descriptor const& d, caller by) {
    if (!check(d, by)) return {};
    writer out{by};
    out.put(magic), out.put(major_version), out.put(minor_version);
    out.put_record(tag::origin, d.from);
    for (auto const& m : d.memories) out.put_record(tag::memory, m);
    put_root(out, d.root);
    out.put(crc32c(out.written()));
    return std::move(out).release();
}

[[nodiscard]] inline descriptor read_bytes(std::span<std::byte const> bytes, caller by) {
    reader in{bytes, by};
    descriptor d;
    std::uint32_t first = 0;
    in("the magic", first);
    if (first != magic)
        return by.refuse("the first 4 bytes are not FRYD: pass the bytes that ferry::wire::to_bytes returned"), d;
    in("the version", d.major), in("the version", d.minor);
    if (d.major != major_version) return static_cast<void>(check(d, by)), d;  // the rest has another format
    if (bytes.size() < header_size + checksum_size) return in.refuse(": truncated: there is no checksum"), d;
    auto const body = bytes.size() - checksum_size;
    auto const stated = little_endian(bytes.data() + body), found = crc32c(bytes.first(body));
    if (stated != found)
        return by.refuse("the checksum is ", stated, ", expected ", found,
                         ": send all bytes of the descriptor, unchanged"),
               d;
    d = take_records({bytes.first(body), by, header_size}, std::move(d));
    static_cast<void>(check(d, by));
    return d;
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE std::vector<std::byte> to_bytes(descriptor const& d, std::source_location where) {
    return detail::write_bytes(d, {"ferry::wire::to_bytes", where});
}
FERRY_INLINE descriptor from_bytes(std::span<std::byte const> bytes, std::source_location where) {
    return detail::read_bytes(bytes, {"ferry::wire::from_bytes", where});
}
#endif
FERRY_INLINE result<std::vector<std::byte>> try_to_bytes(descriptor const& d, std::source_location where) {
    return ferry::detail::attempt<std::vector<std::byte>>(
        "ferry::wire::to_bytes", where, [&](detail::caller by) { return detail::write_bytes(d, by); });
}
FERRY_INLINE result<descriptor> try_from_bytes(std::span<std::byte const> bytes, std::source_location where) {
    return ferry::detail::attempt<descriptor>("ferry::wire::from_bytes", where,
                                              [&](detail::caller by) { return detail::read_bytes(bytes, by); });
}

}  // namespace FERRY_NAMESPACE::wire
