// ferry: a descriptor as bytes; docs/wire.md documents the format. Unknown records, and additional bytes at the end of
// a known one, are skipped, because a later minor version may add them.
#pragma once

#include <ferry/wire/check.hpp>
#include <ferry/wire/descriptor.hpp>
#include <ferry/wire/detail/bytes.hpp>
#include <ferry/wire/detail/crc32c.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <variant>
#include <vector>  // the result

namespace ferry::inline FERRY_ABI_NAMESPACE::wire {
namespace detail {

/// The tag of a record. A tensor or column is the root; a node consists of the records fields, child and dictionary.
enum class tag : std::uint16_t { origin = 1, memory, tensor, column, fields, child, dictionary };

inline constexpr std::uint32_t magic = 0x4459'5246;  // "FRYD"
inline constexpr std::size_t header_size = 8, checksum_size = 4;

inline void put(writer& out, node const& n, tag as) {
    out.put_record(as, [&](auto&) {
        out.put_record(tag::fields, n);
        for (auto const& child : n.children) put(out, child, tag::child);
        for (auto const& dictionary : n.dictionary) put(out, dictionary, tag::dictionary);
    });
}

[[nodiscard]] inline node take_node(reader in, int depth) {
    if (depth > max_depth) in.refuse(": the column is deeper than ", max_depth, " nodes");  // mutant: wire_depth
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
                if (std::exchange(has_root, true)) payload.refuse(": a second tensor or column");
                if (tag{what} == tag::tensor) payload.take(d.root.emplace<tensor>());
                else d.root = take_node(payload, 1);
                break;
            default: break;  // of a later minor version
        }
    }
    if (!has_origin || !has_root)
        in.refuse(": the descriptor has no record of ", has_origin ? "a tensor or column" : "the origin");
    return d;
}

[[nodiscard]] inline std::vector<std::byte> write_bytes(descriptor const& d, caller by) {
    if (!check(d, by)) return {};
    writer out{by};
    out(magic, major_version, minor_version);
    out.put_record(tag::origin, d.from);
    for (auto const& m : d.memories) out.put_record(tag::memory, m);
    if (auto const* t = std::get_if<tensor>(&d.root)) out.put_record(tag::tensor, *t);
    if (auto const* n = std::get_if<node>(&d.root)) put(out, *n, tag::column);
    out.put(crc32c(out.written()));
    return std::move(out).release();
}

[[nodiscard]] inline descriptor read_bytes(std::span<std::byte const> bytes, caller by) {
    reader in{bytes, by};
    descriptor d;
    std::uint32_t first = 0;
    in({"the magic"}, first);
    if (first != magic)
        return by.refuse("the first 4 bytes are not FRYD: pass the bytes that ferry::wire::to_bytes returned"), d;
    in({"the version"}, d.major), in({"the version"}, d.minor);
    if (d.major != major_version) return static_cast<void>(check(d, by)), d;  // the rest has another format
    if (bytes.size() < header_size + checksum_size) return in.refuse(": truncated: there is no checksum"), d;
    auto const body = bytes.size() - checksum_size;
    auto const stated = little_endian(bytes.data() + body), found = crc32c(bytes.first(body));
    if (stated != found)  // mutant: wire_checksum
        return by.refuse("the checksum is ", stated, ", expected ", found,
                         ": send all bytes of the descriptor, unchanged"),
               d;
    d = take_records({bytes.first(body), by, header_size}, std::move(d));
    static_cast<void>(check(d, by));
    return d;
}

}  // namespace detail

/// Encodes a descriptor as bytes, with the minor version of this ferry.
///
/// \param d      descriptor
/// \param where  source location of the caller
/// \return       bytes; `try_to_bytes` returns the bytes or the error
/// \throws error           errc::bad_descriptor, as `check`
/// \throws std::bad_alloc  an allocation failed
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline std::vector<std::byte> to_bytes(descriptor const& d,
                                                     std::source_location where = std::source_location::current()) {
    return detail::write_bytes(d, {"ferry::wire::to_bytes", where});
}
#endif
[[nodiscard]] inline result<std::vector<std::byte>> try_to_bytes(
    descriptor const& d, std::source_location where = std::source_location::current()) {
    return ferry::detail::attempt<std::vector<std::byte>>(
        "ferry::wire::to_bytes", where, [&](detail::caller by) { return detail::write_bytes(d, by); });
}

/// Decodes a descriptor of any minor version of this major version, and checks it with `check`. Time and memory are
/// linear in the number of bytes.
///
/// \param bytes  one descriptor, encoded by `to_bytes`
/// \param where  source location of the caller
/// \return       descriptor; `try_from_bytes` returns the descriptor or the error
/// \throws error           errc::bad_descriptor: another major version, truncated or damaged bytes, or an error of
///                         `check`; the message names the position or the field
/// \throws std::bad_alloc  an allocation failed
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline descriptor from_bytes(std::span<std::byte const> bytes,
                                           std::source_location where = std::source_location::current()) {
    return detail::read_bytes(bytes, {"ferry::wire::from_bytes", where});
}
#endif
[[nodiscard]] inline result<descriptor> try_from_bytes(std::span<std::byte const> bytes,
                                                       std::source_location where = std::source_location::current()) {
    return ferry::detail::attempt<descriptor>("ferry::wire::from_bytes", where,
                                              [&](detail::caller by) { return detail::read_bytes(bytes, by); });
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire
