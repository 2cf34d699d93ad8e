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

inline void put(writer& out, uuid const& u) { out.put_raw(std::as_bytes(std::span{u})); }

inline void put(writer& out, origin const& o) {
    out.put_record(tag::origin, [&] { out.put(o.pid), out.put(o.pid_namespace), put(out, o.boot_id); });
}

inline void put(writer& out, memory const& m) {
    out.put_record(tag::memory, [&] {
        out.put(static_cast<std::uint8_t>(m.kind)), out.put(static_cast<std::uint32_t>(m.type)), put(out, m.device);
        out.put(m.id), out.put(m.allocation), out.put(m.offset), out.put(m.length);
        out.put_list(std::as_bytes(std::span{m.name})), out.put_list(m.handle), out.put_list(m.ready);
    });
}

inline void put(writer& out, tensor const& t) {
    out.put_record(tag::tensor, [&] {
        auto const type = t.dtype.to_abi();
        out.put(type.code), out.put(type.bits), out.put(type.lanes), out.put(t.memory);
        out.put(static_cast<std::uint64_t>(t.byte_offset)), out.put(static_cast<std::uint64_t>(known(t.flags)));
        for (auto const* list : {&t.shape, &t.strides}) {
            out.put_size(list->size());
            for (auto const n : *list) out.put(static_cast<std::uint64_t>(n));
        }
    });
}

inline void put(writer& out, node const& n, tag as) {
    auto const fields = [&] {
        for (auto const value : {n.length, n.null_count, n.offset, n.flags}) out.put(static_cast<std::uint64_t>(value));
        out.put_list(std::as_bytes(std::span{n.format})), out.put_list(std::as_bytes(std::span{n.name})),
            out.put_list(n.metadata);
        out.put_size(n.buffers.size());
        for (auto const& b : n.buffers) out.put(b.memory), out.put(b.offset), out.put(b.length);
    };
    out.put_record(as, [&] {
        out.put_record(tag::fields, fields);
        for (auto const& child : n.children) put(out, child, tag::child);
        for (auto const& dictionary : n.dictionary) put(out, dictionary, tag::dictionary);
    });
}

inline void take(reader& in, uuid& out) {
    for (auto& byte : out) byte = in.take<std::uint8_t>("a UUID");
}

[[nodiscard]] inline origin take_origin(reader in) {
    origin o;
    o.pid = in.take<std::uint32_t>("the pid");
    o.pid_namespace = in.take<std::uint64_t>("the pid namespace");
    take(in, o.boot_id);
    return o;
}

[[nodiscard]] inline memory take_memory(reader in) {
    memory m;
    m.kind = memory_kind{in.take<std::uint8_t>("a memory's kind")};
    m.type = device_type{static_cast<std::int32_t>(in.take<std::uint32_t>("a device type"))};
    take(in, m.device);
    for (auto* const value : {&m.id, &m.allocation, &m.offset, &m.length})
        *value = in.take<std::uint64_t>("a memory's bounds");
    m.name = in.take_text("a memory's name");
    m.handle = in.take_list("a handle");
    m.ready = in.take_list("an event");
    return m;
}

[[nodiscard]] inline tensor take_tensor(reader in) {
    tensor t;
    auto const code = in.take<std::uint8_t>("a data type"), bits = in.take<std::uint8_t>("a data type");
    t.dtype = {type_code{code}, bits, in.take<std::uint16_t>("a data type")};
    t.memory = in.take<std::uint32_t>("a tensor's memory");
    t.byte_offset = static_cast<std::int64_t>(in.take<std::uint64_t>("a byte offset"));
    t.flags = known(flags{in.take<std::uint64_t>("the flags")});
    for (auto* const list : {&t.shape, &t.strides}) {
        list->resize(in.take_count(sizeof(std::int64_t), "shape or strides"));
        for (auto& n : *list) n = static_cast<std::int64_t>(in.take<std::uint64_t>("shape or strides"));
    }
    return t;
}

inline void take_fields(reader in, node& n) {
    for (auto* const value : {&n.length, &n.null_count, &n.offset, &n.flags})
        *value = static_cast<std::int64_t>(in.take<std::uint64_t>("a node's numbers"));
    n.format = in.take_text("a node's format");
    n.name = in.take_text("a node's name");
    n.metadata = in.take_list("a node's metadata");
    n.buffers.resize(in.take_count(20, "a node's buffers"));
    for (auto& b : n.buffers) {
        b.memory = in.take<std::uint32_t>("a buffer");
        b.offset = in.take<std::uint64_t>("a buffer");
        b.length = in.take<std::uint64_t>("a buffer");
    }
}

[[nodiscard]] inline node take_node(reader in, int depth) {
    if (depth > max_depth) in.refuse(": nodes are nested deeper than ", max_depth);  // mutant: wire_depth
    node n;
    bool has_fields = false;
    while (!in.is_empty()) {
        auto [what, payload] = in.take_record();
        switch (tag{what}) {
            case tag::fields:
                if (std::exchange(has_fields, true)) payload.refuse(": a node has its fields twice");
                take_fields(payload, n);
                break;
            case tag::child: n.children.push_back(take_node(payload, depth + 1)); break;
            case tag::dictionary: n.dictionary.push_back(take_node(payload, depth + 1)); break;
            default: break;  // of a later minor
        }
    }
    if (!has_fields) in.refuse(": a node without its fields ends");
    return n;
}

[[nodiscard]] inline descriptor take_records(reader in, descriptor d) {
    bool has_origin = false, has_root = false;
    while (!in.is_empty()) {
        auto [what, payload] = in.take_record();
        switch (tag{what}) {
            case tag::origin:
                if (std::exchange(has_origin, true)) payload.refuse(": a second origin");
                d.from = take_origin(payload);
                break;
            case tag::memory: d.memories.push_back(take_memory(payload)); break;
            case tag::tensor:
            case tag::column:
                if (std::exchange(has_root, true)) payload.refuse(": a second root");
                if (tag{what} == tag::tensor) d.root = take_tensor(payload);
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
    out.put(magic), out.put(major_version), out.put(minor_version);
    put(out, d.from);
    for (auto const& m : d.memories) put(out, m);
    if (auto const* t = std::get_if<tensor>(&d.root)) put(out, *t);
    if (auto const* n = std::get_if<node>(&d.root)) put(out, *n, tag::column);
    out.put(crc32c(out.written()));
    return std::move(out).release();
}

[[nodiscard]] inline descriptor read_bytes(std::span<std::byte const> bytes, caller by) {
    reader in{bytes, by};
    descriptor d;
    if (in.take<std::uint32_t>("the magic") != magic)
        return by.refuse("the first four bytes are not FRYD: this is no descriptor"), d;
    d.major = in.take<std::uint16_t>("the major version");
    d.minor = in.take<std::uint16_t>("the minor version");
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
