// ferry: the messages of the lifetime protocol, as structs and as bytes; no I/O.
// length: one struct for each message, and their encoding beside them.
#pragma once

#include <ferry/base/error.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>  // names are owned by their message
#include <string_view>
#include <type_traits>
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

/// Little-endian, fixed widths; lists and strings follow their length.
struct writer {
    std::vector<std::byte>& out;
    void operator()(auto const&... values) { (put(values), ...); }

    template <std::unsigned_integral T>
    void put(T value) {
        for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
    void put(bool value) { put(std::uint8_t{value}); }
    void put(reason value) { put(static_cast<std::uint8_t>(value)); }
    void put(std::string const& text) {
        put(static_cast<std::uint16_t>(text.size()));
        bytes(text.data(), text.size());
    }
    void put(std::vector<std::byte> const& data) {
        put(static_cast<std::uint32_t>(data.size()));
        bytes(data.data(), data.size());
    }
    void put(statistics const& counts) { statistics::fields(counts, *this); }
    void put(std::vector<entry> const& entries) {
        put(static_cast<std::uint16_t>(entries.size()));
        for (auto const& e : entries) entry::fields(e, *this);
    }
    void bytes(void const* data, std::size_t n) {
        auto const* first = static_cast<std::byte const*>(data);
        out.insert(out.end(), first, first + n);
    }
};

/// Reads from the front. A length beyond the bytes left fails before memory is allocated for it.
struct reader {
    std::span<std::byte const> left;
    std::size_t total = left.size();
    void operator()(auto&... values) { (get(values), ...); }

    [[noreturn]] void bad(char const* what) const {
        ferry::detail::fail(errc::bad_descriptor, "ferry::ipc::protocol::from_bytes",
                            ferry::message{} << what << " at byte " << std::uint64_t{total - left.size()} << " of "
                                             << std::uint64_t{total}
                                             << ": the sender uses another protocol, or the message is damaged");
    }
    std::span<std::byte const> take(std::size_t n) {
        if (n > left.size()) bad("the message ends early");  // mutant: ipc_message_bounds
        auto const front = left.first(n);
        left = left.subspan(n);
        return front;
    }
    template <std::unsigned_integral T>
    void get(T& value) {
        std::uint64_t sum = 0;
        auto const raw = take(sizeof(T));
        for (std::size_t i = 0; i < sizeof(T); ++i) sum |= std::to_integer<std::uint64_t>(raw[i]) << (8 * i);
        value = static_cast<T>(sum);
    }
    void get(bool& value) {
        std::uint8_t raw = 0;
        get(raw);
        if (raw > 1) bad("a truth value is neither 0 nor 1");
        value = raw == 1;
    }
    void get(reason& value) {
        std::uint8_t raw = 0;
        get(raw);
        if (raw > static_cast<std::uint8_t>(reason::bad_message)) bad("an unknown reason");
        value = static_cast<reason>(raw);
    }
    void get(std::string& text) {
        std::uint16_t n = 0;
        get(n);
        if (n > max_name) bad("a name is longer than 200 bytes");
        auto const raw = take(n);
        text.assign(reinterpret_cast<char const*>(raw.data()), raw.size());
    }
    void get(std::vector<std::byte>& data) {
        std::uint32_t n = 0;
        get(n);
        auto const raw = take(n);
        data.assign(raw.begin(), raw.end());
    }
    void get(statistics& counts) { statistics::fields(counts, *this); }
    void get(std::vector<entry>& entries) {
        std::uint16_t n = 0;
        get(n);
        for (std::uint16_t i = 0; i < n; ++i) {  // grows with each entry: a forged count allocates nothing
            entry e;
            entry::fields(e, *this);
            entries.push_back(std::move(e));
        }
    }
};

}  // namespace detail

/// Encodes a message: `FI`, the version, the number of the type, the total size (u32), then the fields.
/// \param m  the message
/// \return   its bytes
[[nodiscard]] inline std::vector<std::byte> to_bytes(message const& m) {
    std::vector<std::byte> out;
    out.reserve(256);
    detail::writer put{out};
    put(std::uint8_t{'F'}, std::uint8_t{'I'}, version, static_cast<std::uint8_t>(m.index()), std::uint32_t{0});
    std::visit([&](auto const& fields) { std::remove_cvref_t<decltype(fields)>::fields(fields, put); }, m);
    for (std::size_t i = 0; i < 4; ++i) out[4 + i] = static_cast<std::byte>(out.size() >> (8 * i));
    return out;
}

/// Decodes one message. Allocates at most a small multiple of the size of `bytes`.
/// \param bytes  exactly one message
/// \return       the message
/// \throws error  errc::bad_descriptor: not a message, another version, truncated, a wrong size, or a field beyond its
///                limits
[[nodiscard]] inline message from_bytes(std::span<std::byte const> bytes) {
    detail::reader get{bytes};
    std::uint8_t magic[2] = {}, format = 0, type = 0;
    std::uint32_t size = 0;
    get(magic[0], magic[1], format, type, size);
    if (magic[0] != 'F' || magic[1] != 'I') get.bad("no message of ferry's");
    if (format != version) get.bad("another version of the protocol");
    if (size != bytes.size() || size > max_message) get.bad("a wrong size");
    auto const decode = [&]<std::size_t... I>(std::index_sequence<I...>) {
        message m;
        bool const known =
            ((type == I &&
              (m.emplace<I>(), std::variant_alternative_t<I, message>::fields(*std::get_if<I>(&m), get), true)) ||
             ...);
        if (!known) get.bad("an unknown type");
        return m;
    };
    message m = decode(std::make_index_sequence<std::variant_size_v<message>>{});
    if (!get.left.empty()) get.bad("bytes are left over");  // mutant: ipc_message_rest
    if (auto const* g = std::get_if<granted>(&m); g != nullptr && (g->fds > max_fds || (!g->fresh && g->fds != 0)))
        get.bad("an impossible number of file descriptors");
    if (auto const* a = std::get_if<acknowledge>(&m); a != nullptr && a->done.size() > max_done)
        get.bad("more than 256 bytes with an acknowledgement");
    return m;
}

}  // namespace protocol
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
