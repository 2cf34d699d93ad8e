// ferry: a descriptor as bytes. Little-endian: the magic FRYD, the version, records of (tag, length, payload), and the
// CRC-32C of all that comes before it. Unknown tags, and what a known payload has beyond its fields, are skipped, so
// that a later minor may add to both.
#pragma once

#include <ferry/wire/check.hpp>
#include <ferry/wire/crc32c.hpp>
#include <ferry/wire/descriptor.hpp>
#include <ferry/wire/detail/bytes.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <variant>
#include <vector>  // what to_bytes returns

namespace ferry::inline FERRY_ABI_NAMESPACE::wire {
namespace detail {

/// What a payload is. `tensor` or `column` is the root; `child` and `dictionary` appear in nodes alone, which consist
/// of records.
enum class tag : std::uint16_t { origin = 1, memory, tensor, column, fields, child, dictionary };

inline constexpr std::uint32_t magic = 0x4459'5246;  // "FRYD"
inline constexpr std::size_t header_size = 8, checksum_size = 4;

inline void put(writer<>& out, node const& n, tag as) {
    out.put_record(as, [&](auto&) {
        out.put_record(tag::fields, n);
        for (auto const& child : n.children) put(out, child, tag::child);
        for (auto const& dictionary : n.dictionary) put(out, dictionary, tag::dictionary);
    });
}

[[nodiscard]] inline node take_node(reader<> in, int depth) {
    if (depth > max_depth) in.refuse(": nodes are nested deeper than ", max_depth);  // mutant: wire_depth
    node n;
    bool has_fields = false;
    while (!in.is_empty()) {
        auto [what, payload] = in.take_record();
        switch (tag{what}) {
            case tag::fields:
                if (std::exchange(has_fields, true)) payload.refuse(": a node has its fields twice");
                payload.take(n);
                break;
            case tag::child: n.children.push_back(take_node(payload, depth + 1)); break;
            case tag::dictionary: n.dictionary.push_back(take_node(payload, depth + 1)); break;
            default: break;  // of a later minor
        }
    }
    if (!has_fields) in.refuse(": a node without its fields ends");
    return n;
}

[[nodiscard]] inline descriptor take_records(reader<> in, descriptor d) {
    bool has_origin = false, has_root = false;
    while (!in.is_empty()) {
        auto [what, payload] = in.take_record();
        switch (tag{what}) {
            case tag::origin:
                if (std::exchange(has_origin, true)) payload.refuse(": a second origin");
                payload.take(d.from);
                break;
            case tag::memory: payload.take(d.memories.emplace_back()); break;
            case tag::tensor:
            case tag::column:
                if (std::exchange(has_root, true)) payload.refuse(": a second root");
                if (tag{what} == tag::tensor) payload.take(d.root.emplace<tensor>());
                else d.root = take_node(payload, 1);
                break;
            default: break;  // of a later minor
        }
    }
    if (!has_origin || !has_root)
        in.refuse(": the records end without ", has_origin ? "a tensor or column" : "an origin");
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
    if (first != magic) return by.refuse("the first four bytes are not FRYD: this is no descriptor"), d;
    in({"the version"}, d.major), in({"the version"}, d.minor);
    if (d.major != major_version) return static_cast<void>(check(d, by)), d;  // the rest may be anything
    if (bytes.size() < header_size + checksum_size)
        return by.refuse("truncated: ", std::uint64_t{bytes.size()}, " bytes hold no checksum"), d;
    auto const body = bytes.size() - checksum_size;
    auto const said = little_endian(bytes.data() + body), found = crc32c(bytes.first(body));
    if (said != found)  // mutant: wire_checksum
        return by.refuse("the checksum is ", said, ", and the bytes before it give ", found,
                         ": truncated, or changed on the way"),
               d;
    d = take_records({bytes.first(body), by, header_size}, std::move(d));
    static_cast<void>(check(d, by));
    return d;
}

}  // namespace detail

/// The descriptor as bytes, of this ferry's minor version. Pure; does not synchronise.
///
/// \param d      descriptor
/// \param where  source location of the caller
/// \return       bytes; `try_to_bytes` returns the bytes or the error
/// \throws error  errc::bad_descriptor, as `check`: what would not be read is not written. std::bad_alloc.
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

/// The descriptor in some bytes, of any minor version of this major. Checked by `check`, so that what comes out is safe
/// to open. Reads nothing beyond `bytes`; time and memory are linear in their number. Pure; does not synchronise.
///
/// \param bytes  bytes
/// \param where  source location of the caller
/// \return       descriptor; `try_from_bytes` returns the descriptor or the error
/// \throws error  errc::bad_descriptor: another major, truncated, a wrong checksum, a bound that does not hold; the
///                message says which, and the byte or the field. std::bad_alloc.
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
