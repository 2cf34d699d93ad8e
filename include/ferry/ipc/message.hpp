// ferry: the messages of the lifetime protocol, as structs and as bytes; no I/O.
// length: one struct for each message, and their encoding beside them.
#pragma once

#include <ferry/wire/detail/bytes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>  // names are owned by their message
#include <string_view>
#include <utility>
#include <variant>
#include <vector>  // descriptors are owned by their message

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Milliseconds of a monotonic clock. The state machines get the time as an argument.
using instant = std::uint64_t;

/// Reason of a refusal.
enum class reason : std::uint8_t {
    not_published,  ///< no such name, or no newer publication in time
    closed,         ///< the exporter has closed
    permission,     ///< this user is not permitted
    too_many,       ///< connections, leases or waiting requests beyond the exporter's limits
    bad_message,    ///< not a message of this protocol
};

/// One published name, as `ferry-ipc ls` shows it. Sizes in bytes, times in milliseconds.
struct entry {
    std::string name;
    std::uint64_t buffer = 0, generation = 0, bytes = 0, age = 0, grants = 0;
    std::uint32_t readers = 0, holders = 0;
    static constexpr std::size_t least_size = 50;  ///< bytes in a message
    static constexpr void fields(auto& m, auto& f) {
        f(m.name, m.buffer, m.generation, m.bytes, m.age, m.grants, m.readers, m.holders);
    }
    bool operator==(entry const&) const = default;
};

/// Statistics of an exporter. `published` to `condemned` are current values, the others totals since its start.
struct statistics {
    std::uint64_t published = 0, clients = 0, leases = 0, waiting = 0, condemned = 0;
    std::uint64_t grants = 0, refusals = 0, evicted = 0, expired = 0, lapsed = 0, violations = 0;
    static constexpr void fields(auto& m, auto& f) {
        f(m.published, m.clients, m.leases, m.waiting, m.condemned, m.grants, m.refusals, m.evicted, m.expired,
          m.lapsed, m.violations);
    }
    bool operator==(statistics const&) const = default;
};

namespace protocol {

// From the importer. The importer numbers its requests; the reply repeats the number.

/// Requests the newest publication of a name whose generation is higher than `after`, and waits `patience` ms for one.
/// `finished`: a lease that ends with this message, or 0.
struct attach {
    std::uint64_t request = 0, after = 0, finished = 0;
    std::uint32_t patience = 0;
    std::string name;
    static constexpr void fields(auto& m, auto& f) { f(m.request, m.after, m.finished, m.patience, m.name); }
    bool operator==(attach const&) const = default;
};
/// Ends a lease: the buffer may be written again. `done`: bytes for the exporter, such as the handle of an event.
struct acknowledge {
    std::uint64_t lease = 0;
    std::vector<std::byte> done;
    static constexpr void fields(auto& m, auto& f) { f(m.lease, m.done); }
    bool operator==(acknowledge const&) const = default;
};
/// Reports that a buffer is unmapped. Ends its leases up to `lease`; if there is a newer one, the buffer stays held.
struct release {
    std::uint64_t buffer = 0, lease = 0;
    static constexpr void fields(auto& m, auto& f) { f(m.buffer, m.lease); }
    bool operator==(release const&) const = default;
};
/// Renews all leases, as every other message does. The reply is `done`.
struct ping {
    std::uint64_t request = 0;
    static constexpr void fields(auto& m, auto& f) { f(m.request); }
    bool operator==(ping const&) const = default;
};
/// Requests the published names after `after`, as many as fit. The reply is `listing`.
struct list {
    std::uint64_t request = 0;
    std::string after;
    static constexpr void fields(auto& m, auto& f) { f(m.request, m.after); }
    bool operator==(list const&) const = default;
};
/// Withdraws a name; only for the exporter's own user. The reply is `done`.
struct drop {
    std::uint64_t request = 0;
    std::string name;
    static constexpr void fields(auto& m, auto& f) { f(m.request, m.name); }
    bool operator==(drop const&) const = default;
};
/// Requests the statistics. The reply is `counted`.
struct count {
    std::uint64_t request = 0;
    static constexpr void fields(auto& m, auto& f) { f(m.request); }
    bool operator==(count const&) const = default;
};

// From the exporter.

/// Grants a lease. `fresh`: the importer did not hold the buffer, and `fds` file descriptors are sent with the message.
struct granted {
    std::uint64_t request = 0, lease = 0, buffer = 0, generation = 0;
    std::uint32_t lease_ms = 0;
    bool fresh = false;
    std::uint8_t fds = 0;
    std::vector<std::byte> descriptor;
    static constexpr void fields(auto& m, auto& f) {
        f(m.request, m.lease, m.buffer, m.generation, m.lease_ms, m.fresh, m.fds, m.descriptor);
    }
    bool operator==(granted const&) const = default;
};
/// The reply to a request that is refused.
struct refused {
    std::uint64_t request = 0;
    reason why = reason::not_published;
    static constexpr void fields(auto& m, auto& f) { f(m.request, m.why); }
    bool operator==(refused const&) const = default;
};
/// The reply to a request that has no result.
struct done {
    std::uint64_t request = 0;
    static constexpr void fields(auto& m, auto& f) { f(m.request); }
    bool operator==(done const&) const = default;
};
/// The reply to `list`.
struct listing {
    std::uint64_t request = 0;
    bool more = false;
    std::vector<entry> entries;
    static constexpr void fields(auto& m, auto& f) { f(m.request, m.more, m.entries); }
    bool operator==(listing const&) const = default;
};
/// The reply to `count`.
struct counted {
    std::uint64_t request = 0;
    statistics counts;
    static constexpr void fields(auto& m, auto& f) { f(m.request, m.counts); }
    bool operator==(counted const&) const = default;
};
/// Asks the importer to release a buffer, which will not be published again.
struct withdrawn {
    std::uint64_t buffer = 0;
    static constexpr void fields(auto& m, auto& f) { f(m.buffer); }
    bool operator==(withdrawn const&) const = default;
};
/// The exporter is closing and asks the importer to release all buffers.
struct closing {
    static constexpr void fields(auto&, auto&) {}
    bool operator==(closing const&) const = default;
};

/// The index of a type in this list is its number on the wire: append only.
using message = std::variant<attach, acknowledge, release, ping, list, drop, count, granted, refused, done, listing,
                             counted, withdrawn, closing>;

/// Maximum sizes in bytes of a message, a name, a descriptor and the `done` bytes.
inline constexpr std::size_t max_message = 65536, max_name = 200, max_descriptor = 60000, max_done = 256;
/// Maximum number of file descriptors with a message, and the version of this format.
inline constexpr std::uint8_t max_fds = 8, version = 1;

/// Returns whether a name can be published: 1 to 200 bytes without control characters.
/// \param name  the name
[[nodiscard]] constexpr bool is_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= max_name &&
           std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

namespace detail {

/// Lists and texts follow a length of 2 bytes, bytes one of 4.
struct format {
    using length = std::uint16_t;
    static constexpr std::size_t max_text = max_name;
    static constexpr char const* cure = ": the sender uses another protocol, or the message is damaged";
};

}  // namespace detail

/// Encodes a message: `FI`, the version, the number of the type, the total size (u32), then the fields.
/// \param m  the message
/// \return   its bytes
[[nodiscard]] inline std::vector<std::byte> to_bytes(message const& m) {
    wire::detail::writer<detail::format> out{{"ferry::ipc::protocol::to_bytes", std::source_location::current()}};
    out('F', 'I', version, static_cast<std::uint8_t>(m.index()), std::uint32_t{0});
    std::visit([&](auto const& fields) { out.put(fields); }, m);
    out.set_size(4, out.written().size());
    return std::move(out).release();
}

/// Decodes one message. Allocates at most a small multiple of the size of `bytes`.
/// \param bytes  exactly one message
/// \return       the message
/// \throws error  errc::bad_descriptor: not a message, another version, truncated, a wrong size, or a field beyond its
///                limits
[[nodiscard]] inline message from_bytes(std::span<std::byte const> bytes) {
    wire::detail::reader<detail::format> in{bytes,
                                            {"ferry::ipc::protocol::from_bytes", std::source_location::current()}};
    char magic[2] = {};
    std::uint8_t format = 0, type = 0;
    std::uint32_t size = 0;
    in(magic[0], magic[1], format, type, size);
    if (magic[0] != 'F' || magic[1] != 'I') in.refuse(": no message of ferry's");
    if (format != version) in.refuse(": another version of the protocol");
    if (size != bytes.size() || size > max_message) in.refuse(": a wrong size");
    message m;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        if (!((type == I && (in.take(m.emplace<I>()), true)) || ...)) in.refuse(": an unknown type");
    }(std::make_index_sequence<std::variant_size_v<message>>{});
    if (!in.is_empty()) in.refuse(": bytes are left over");  // mutant: ipc_message_rest
    if (auto const* r = std::get_if<refused>(&m); r != nullptr && r->why > reason::bad_message)
        in.refuse(": an unknown reason");
    if (auto const* g = std::get_if<granted>(&m); g != nullptr && (g->fds > max_fds || (!g->fresh && g->fds != 0)))
        in.refuse(": an impossible number of file descriptors");
    if (auto const* a = std::get_if<acknowledge>(&m); a != nullptr && a->done.size() > max_done)
        in.refuse(": more than 256 bytes with an acknowledgement");
    return m;
}

}  // namespace protocol
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
