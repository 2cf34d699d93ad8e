// Hostile messages of the lifetime protocol: refused with errc::bad_descriptor, or unchanged when they are encoded
// again. Accepted messages are passed to both state machines, with time passing, and both count readers correctly.
#include "bytes.hpp"

#include <ferry/ipc/exporter.hpp>
#include <ferry/ipc/importer.hpp>

#include <cstdint>
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

using namespace ferry::ipc;

namespace {

std::optional<protocol::message> decode(std::span<std::byte const> bytes) {
    auto const exact = std::make_unique<std::byte[]>(bytes.size());  // AddressSanitizer detects reads out of bounds
    std::copy(bytes.begin(), bytes.end(), exact.get());
    try {
        auto m = protocol::from_bytes({exact.get(), bytes.size()});
        auto const again = protocol::to_bytes(m);
        HOLDS(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
        return m;
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == ferry::errc::bad_descriptor);
        return {};
    }
}

/// The same bytes with a valid header, so that the fields are decoded.
std::vector<std::byte> framed(std::span<std::byte const> body, unsigned type) {
    std::vector<std::byte> out{std::byte{'F'}, std::byte{'I'}, std::byte{protocol::version},
                               static_cast<std::byte>(type)};
    for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>((body.size() + 8) >> (8 * i)));
    out.insert(out.end(), body.begin(), body.end());
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::span const all{reinterpret_cast<std::byte const*>(data), size};
    static_cast<void>(decode(all));
    exporter_limits limits;
    limits.lease = 10;
    limits.leases = 4;
    protocol::exporter exporter{limits};
    protocol::importer importer;
    instant now = 0;
    HOLDS(exporter.joined(1, true, now) && exporter.joined(2, false, now));
    exporter.publish("a", 1, {}, 0, now);
    exporter.publish("b", 2, {}, 1, now);
    static_cast<void>(importer.ask(protocol::attach{.name = "a"}));
    static_cast<void>(importer.ask(protocol::list{}));
    // A list of (type, size, body), each for one of the two machines.
    int left = 16;  // refusals are exceptions, and slow
    for (std::size_t at = 0; at + 2 <= size && left-- > 0;) {
        auto const type = data[at] % 16U;
        std::size_t const n = std::min<std::size_t>(data[at + 1], size - at - 2);
        auto const m = decode(framed(all.subspan(at + 2, n), type));
        at += 2 + n;
        now += n;
        exporter.tick(now);
        if (!m) continue;
        exporter.received(1 + n % 2, *m, now);
        auto const before = importer.held().size();
        try {
            static_cast<void>(importer.received(*m));
        } catch (ferry::error const& e) {
            fuzz::saw(e.code());
            HOLDS(e.code() == ferry::errc::bad_descriptor);
            HOLDS(importer.held().size() == before);
        }
        for (auto const& l : importer.leases()) HOLDS(importer.holds(l.buffer));
        for (auto const& e : exporter.take_events()) {
            if (e.kind == event::what::freeable) HOLDS(!exporter.is_held(e.buffer) && !exporter.is_read(e.buffer));
            if (e.kind == event::what::reusable) HOLDS(!exporter.is_read(e.buffer));
        }
        for (auto const& o : exporter.take_orders())
            if (o.say) HOLDS(protocol::from_bytes(protocol::to_bytes(*o.say)) == *o.say);
        auto const counts = exporter.counts();
        HOLDS(counts.leases <= 8 && counts.waiting <= 32 && counts.condemned <= counts.leases);
    }
    for (std::uint64_t id : {1U, 2U}) {
        exporter.hung_up(id);
        exporter.exited(id);
    }
    HOLDS(exporter.is_idle() && exporter.held().empty());
    return 0;
}
