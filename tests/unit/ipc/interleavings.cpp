// The two state machines of the lifetime protocol: every interleaving of an exporter and two importers, with messages
// in transit, exits and disconnections, up to a number of steps: 5, or that of FERRY_IPC_DEPTH.
#include <ferry/ipc/exporter.hpp>
#include <ferry/ipc/importer.hpp>

#include "support/fails.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

using namespace ferry::ipc;
namespace protocol = ferry::ipc::protocol;

namespace ferry::ipc::protocol {

/// A state as text, one importer at a time, so that states that differ only in the names of the importers are equal.
struct state_of {
    static void number(std::string& out, std::uint64_t n) { out += std::to_string(n) + ","; }
    static void say(std::string& out, message const& m) {
        for (auto b : to_bytes(m)) out.push_back(static_cast<char>(b));
        out += ';';
    }
    static std::string client(exporter const& e, std::uint64_t id, instant now) {
        std::string out;
        auto const found = e.clients_.find(id);
        if (found == e.clients_.end()) return "-";
        auto const& c = found->second;
        for (auto b : {c.owner, c.hung_up, c.exited}) out.push_back(b ? '1' : '0');
        number(out, now - c.heard);
        for (auto const& l : c.leases) number(out, l.id), number(out, l.buffer), number(out, l.lapsed);
        out += '/';
        for (auto b : c.held) number(out, b);
        out += '/';
        for (auto const& w : c.waiting)
            number(out, w.request), number(out, w.after), number(out, w.until - now), out += w.name;
        return out;
    }
    static std::string shared(exporter const& e) {
        std::string out;
        number(out, e.last_lease_);
        number(out, e.closed_);
        number(out, e.generation_);
        for (auto const& [name, p] : e.names_) out += name, number(out, p.buffer), number(out, p.generation);
        return out;
    }
    static std::string of(importer const& i) {
        std::string out;
        number(out, i.last_request_);
        for (auto const& [request, m] : i.asked_) say(out, m);
        for (auto const& l : i.leases_) number(out, l.id), number(out, l.buffer), number(out, l.generation);
        out += '/';
        for (auto const& [buffer, last] : i.held_) number(out, buffer), number(out, last);
        out += '/';
        for (auto b : i.withdrawn_) number(out, b);
        out.push_back(i.closing_ ? '1' : '0');
        return out;
    }
};

}  // namespace ferry::ipc::protocol

namespace {

constexpr instant lease_ms = 10;

exporter_limits small() {
    exporter_limits l;
    l.lease = lease_ms;
    return l;
}

std::vector<std::byte> bytes(std::uint64_t n) { return {static_cast<std::byte>(n), std::byte{0xAB}}; }

/// Thrown for a violated property, so that the search stops and reports the steps that led to it.
struct broken {
    std::string what;
};
void promise(bool holds, char const* what) {
    if (!holds) throw broken{what};
}

/// An importer and its connection. A process that has exited reads nothing; a disconnected one may continue to read.
struct peer {
    protocol::importer machine;
    std::deque<protocol::message> up, down;
    bool alive = true, connected = true, exit_told = false, hang_up_told = false;
    std::uint64_t request = 0;  // outstanding, or 0
    std::uint64_t seen = 0;     // the newest generation
};

struct world {
    protocol::exporter exporter{small()};
    peer peers[2];
    std::map<std::uint64_t, std::uint64_t> content;  // of each buffer: the generation that was written last
    std::map<std::uint64_t, bool> freed;
    instant now = 0;

    world() {
        promise(exporter.joined(1, true, now), "two importers may join");
        promise(exporter.joined(2, false, now), "two importers may join");
    }

    void flush() {
        for (auto& o : exporter.take_orders()) {
            auto& p = peers[o.client - 1];
            promise(o.say.has_value(), "the connection of an importer that follows the protocol is never closed");
            if (p.connected) p.down.push_back(std::move(*o.say));
        }
        for (auto const& e : exporter.take_events()) {
            bool const reads = e.kind == event::what::reusable || e.kind == event::what::freeable;
            for (auto const& p : peers) {
                if (!p.alive || !reads) continue;
                promise(std::ranges::find(p.machine.leases(), e.buffer, &protocol::importer::lease::buffer) ==
                            p.machine.leases().end(),
                        "a buffer reported as reusable or freeable has no reader");
                promise(e.kind != event::what::freeable || !p.machine.holds(e.buffer),
                        "a buffer reported as freeable is not mapped");
            }
        }
        for (auto& p : peers)
            for (auto& m : p.machine.take_orders())
                if (p.connected) p.up.push_back(std::move(m));
        check();
    }
    void check() const {
        for (auto const& p : peers) {
            if (!p.alive) continue;
            for (auto const& l : p.machine.leases()) {
                promise(exporter.is_read(l.buffer), "a buffer that a running importer reads counts as read");
                promise(content.at(l.buffer) == l.generation,
                        "a buffer is not written again while a running importer reads it");
            }
            for (auto const& [buffer, last] : p.machine.held())
                promise(exporter.is_held(buffer), "a buffer that a running importer maps counts as held");
        }
    }

    static constexpr int per_peer = 10, of_exporter = 5, actions = 2 * per_peer + of_exporter;
    static char const* name(int a) {
        static char const* const peers_do[] = {
            "asks",  "asks for the next", "acknowledges", "releases", "forgets",
            "sends", "receives",          "hangs up",     "dies",     "is found dead"};
        static char const* const exporter_does[] = {"publishes", "withdraws", "retires", "waits", "closes"};
        return a < 2 * per_peer ? peers_do[a % per_peer] : exporter_does[a - 2 * per_peer];
    }

    /// Performs the step, if it is possible in this state.
    bool act(int a) {
        bool const did = a < 2 * per_peer ? act(static_cast<std::uint64_t>(a / per_peer), a % per_peer)
                                          : act_exporter(a - 2 * per_peer);
        if (did) flush();
        return did;
    }
    bool act(std::uint64_t k, int a) {
        auto& p = peers[k];
        auto& m = p.machine;
        bool const can_talk = p.alive && p.connected;
        switch (a) {
            case 0:
                if (!can_talk || p.request != 0) return false;
                p.request = m.ask(protocol::attach{.name = "a"});
                return true;
            case 1:
                if (!can_talk || p.request != 0) return false;
                p.request =
                    m.ask(protocol::attach{0, p.seen, m.leases().empty() ? 0 : m.leases().front().id, lease_ms, "a"});
                return true;
            case 2:
                if (!can_talk || m.leases().empty()) return false;
                m.finish(m.leases().front().id);
                return true;
            case 3:
                if (!can_talk || m.held().empty()) return false;
                m.give_up(m.held().begin()->first);
                return true;
            case 4:
                if (!can_talk || p.request == 0) return false;
                m.forget(std::exchange(p.request, 0));
                return true;
            case 5:  // the exporter receives the first message of this importer
                if (p.up.empty()) return false;
                exporter.received(k + 1, p.up.front(), now);
                p.up.pop_front();
                return true;
            case 6: {
                if (!can_talk || p.down.empty()) return false;
                auto answer = m.received(p.down.front());
                p.down.pop_front();
                if (!answer) return true;
                p.request = 0;
                if (auto const* g = std::get_if<protocol::granted>(&*answer)) p.seen = g->generation;
                return true;
            }
            case 7:
                if (!can_talk) return false;
                p.connected = false;
                p.down.clear();
                return true;
            case 8:
                if (!p.alive) return false;
                p.alive = p.connected = false;
                p.down.clear();
                return true;
            default:
                if (!p.alive && !p.exit_told) return p.exit_told = true, exporter.exited(k + 1), true;
                // Messages are received before the end of the connection.
                if (p.connected || p.hang_up_told || !p.up.empty()) return false;
                return p.hang_up_told = true, exporter.hung_up(k + 1), true;
        }
    }
    bool act_exporter(int a) {
        switch (a) {
            case 0:
                if (exporter.is_closed()) return false;
                for (std::uint64_t const buffer : {1U, 2U}) {
                    if (exporter.is_published(buffer) || exporter.is_read(buffer)) continue;
                    content[buffer] = exporter.publish("a", buffer, bytes(buffer), 1, now);
                    return true;
                }
                return false;  // both are in use: the exporter has to wait
            case 1: return exporter.withdraw("a");
            case 2:
                if (!exporter.is_held(1) || exporter.is_published(1)) return false;
                exporter.retire(1);
                return true;
            case 3:
                now += lease_ms;
                exporter.tick(now);
                return true;
            default:
                if (exporter.is_closed()) return false;
                exporter.close();
                return true;
        }
    }

    /// Delivers all messages.
    void settle() {
        for (int quiet = 0, rounds = 0; quiet == 0;) {
            quiet = 1;
            promise(++rounds < 100, "messages come to an end");
            for (int const a : {5, 6, 9})
                for (int const k : {0, per_peer})
                    while (act(a + k)) quiet = 0;
        }
    }
    /// From any state: requests get replies, all buffers are released, close ends.
    void run_down() {
        settle();
        act(2 * per_peer + 3);
        settle();
        for (auto& p : peers)
            promise(!p.alive || !p.connected || p.request == 0, "every attach gets a reply by the end of its patience");
        exporter.close();
        exporter.close();
        flush();
        settle();
        for (auto& p : peers) {
            if (p.alive && p.connected) promise(p.machine.is_closing(), "a running importer receives the close");
            if (p.alive && p.connected) p.machine.give_up_all();
        }
        flush();
        settle();
        for (std::uint64_t const buffer : {1U, 2U}) {
            bool held = false;
            for (auto const& p : peers) held = held || (p.alive && p.machine.holds(buffer));
            promise(held || (!exporter.is_read(buffer) && !exporter.is_held(buffer)) || has_running_disconnected(),
                    "a buffer without readers and holders is free");
        }
        for (auto& p : peers) p.alive = p.connected = false;
        settle();
        promise(exporter.is_idle(), "no buffer is held after all importers have ended");
        promise(exporter.counts().clients == 0, "no importer is listed after it has ended");
    }
    [[nodiscard]] bool has_running_disconnected() const {
        return (peers[0].alive && !peers[0].connected) || (peers[1].alive && !peers[1].connected);
    }

    [[nodiscard]] std::string state() const {
        std::string each[2];
        for (std::uint64_t k = 0; k < 2; ++k) {
            auto const& p = peers[k];
            auto& out = each[k];
            out = protocol::state_of::client(exporter, k + 1, now) + "|" + protocol::state_of::of(p.machine) + "|";
            for (auto const& m : p.up) protocol::state_of::say(out, m);
            out += '|';
            for (auto const& m : p.down) protocol::state_of::say(out, m);
            for (auto b : {p.alive, p.connected, p.exit_told, p.hang_up_told}) out.push_back(b ? '1' : '0');
            out += std::to_string(p.request) + "," + std::to_string(p.seen);
        }
        if (each[1] < each[0]) std::swap(each[0], each[1]);
        std::string out = protocol::state_of::shared(exporter) + "#" + each[0] + "#" + each[1] + "#";
        for (auto const& [b, g] : content) out += std::to_string(b) + ":" + std::to_string(g);
        return out;
    }
};

/// Depth first; a state that was searched to the same depth before is not searched again.
struct search {
    // A hash of 64 bits: two of a million states collide with a probability of 1 in 10^7.
    std::unordered_map<std::uint64_t, int> seen;
    std::vector<int> path;
    std::size_t states = 0, steps = 0;

    void from(world const& w, int depth) {
        auto const hash = std::uint64_t{std::hash<std::string>{}(w.state())};
        auto const [at, fresh] = seen.emplace(hash, -1);
        if (fresh) {
            ++states;
            world copy = w;
            copy.run_down();
        }
        if (at->second >= depth) return;
        at->second = depth;
        if (depth == 0) return;
        for (int a = 0; a < world::actions; ++a) {
            world next = w;
            path.push_back(a);
            if (next.act(a)) {
                ++steps;
                from(next, depth - 1);
            }
            path.pop_back();
        }
    }
    void run(world const& start, int depth) {
        try {
            from(start, depth);
        } catch (broken const& b) {
            std::string how;
            for (int const a : path)
                how += std::string{a < 2 * world::per_peer ? (a < world::per_peer ? "1 " : "2 ") : "exporter "} +
                       world::name(a) + ", ";
            FAIL_CHECK(b.what, ": after ", how);
        }
        MESSAGE(states, " states, ", steps, " steps");
    }
};

int depth(int otherwise) {
    char const* const said = std::getenv("FERRY_IPC_DEPTH");
    return said != nullptr ? std::atoi(said) : otherwise;
}

}  // namespace

TEST_CASE(
    "IPC: two importers in any order: no buffer is written or freed while it is read, and every request gets a reply") {
    search s;
    SUBCASE("from the beginning") { s.run(world{}, depth(5)); }
    SUBCASE("with a publication") {
        world w;
        w.act(2 * world::per_peer);
        s.run(w, depth(5));
    }
    SUBCASE("with two readers of it") {
        world w;
        w.act(2 * world::per_peer);
        for (int const a : {0, world::per_peer}) w.act(a), w.settle();
        s.run(w, depth(5));
    }
}
