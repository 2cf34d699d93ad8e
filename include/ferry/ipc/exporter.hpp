// ferry: the exporter's side of the lifetime protocol, as a value: no I/O, no clock, no lock.
// length: one state machine, whose rules are read together.
//
// An exporter publishes buffers under names, and must know when it may write to a buffer again and when it may free it.
// An importer *reads* a buffer from its grant until it acknowledges, and *holds* (maps) it until it releases: the
// mapping stays, so that a frame of a stream costs one message. Without a message during the length of a lease, the
// buffers that it reads are condemned: the exporter is notified, and may use other buffers. The condemned ones stay in
// use, because a stopped process may continue to read them. Buffers that an importer neither acknowledges nor releases
// are freed only when its process has exited and its socket is closed: a socket can close while the mapping exists, and
// a forked child can keep both after its parent has exited.
//
// Descriptors are opaque bytes. The transport preserves message boundaries and order, and reports the end of either
// side: server.hpp, client.hpp.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>  // std::less<>: look-ups by string_view allocate nothing
#include <map>
#include <optional>
#include <set>
#include <string>  // names are owned
#include <string_view>
#include <utility>
#include <vector>  // lists of what is read and held

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// An event for the owner of the buffers.
struct event {
    enum class what : std::uint8_t {
        acknowledged,  ///< an importer has read the buffer; `done` has the bytes that it sent
        reusable,      ///< no importer reads the buffer: it may be written, not freed; importers keep it mapped
        freeable,      ///< no importer reads or maps the buffer: it may be written or freed
        condemned,     ///< a lease has lapsed: the buffer stays in use until its reader acknowledges or exits
        removed,       ///< a name was replaced, evicted, expired, dropped or withdrawn
    };
    what kind{};
    std::uint64_t buffer = 0;
    std::uint64_t client = 0;     ///< acknowledged, condemned: the importer
    std::string name;             ///< removed
    std::vector<std::byte> done;  ///< acknowledged
    bool operator==(event const&) const = default;
};

/// Limits of an exporter. Times in milliseconds.
struct exporter_limits {
    std::size_t clients = 256;    ///< connections, and disconnected importers that still hold buffers
    std::size_t leases = 64;      ///< of one importer at a time
    std::size_t waiting = 16;     ///< attaches of one importer that wait for a publication
    std::size_t names = 1024;     ///< published at a time; the least recently used is evicted
    instant time_to_live = 0;     ///< of a publication; 0: unlimited
    instant lease = 5000;         ///< time without a message after which a reader's buffers are condemned
    instant patience = 3600'000;  ///< longest wait of an attach
    bool operator==(exporter_limits const&) const = default;
};

namespace protocol {
using ferry::detail::fail;

/// The publications, and which importer reads and which holds each buffer. Decides the replies.
class exporter {
   public:
    /// An action for the I/O layer, to be performed in this order: send a message, with the file descriptors of the
    /// buffer if the message is a fresh grant, or close the connection.
    struct order {
        std::uint64_t client;
        std::optional<message> say;  ///< empty: close the connection
    };

    explicit exporter(exporter_limits l = {}) : limits_{l} {}

    // Calls of the owner of the buffers.

    /// Replaces the publication of the name, and replies to the attaches that wait for it. Returns its generation. The
    /// bounds and errors are those of `server::publish`, which has checked `fds`, the number of file descriptors.
    std::uint64_t publish(std::string_view name, std::uint64_t buffer, std::vector<std::byte> descriptor,
                          std::uint8_t fds, instant now) {
        constexpr auto api = "ferry::ipc::publish";
        if (closed_) fail(errc::exporter_gone, api, "the server is closed: make another");
        if (is_published(buffer) || is_read(buffer))  // mutant: ipc_publish_read
            fail(errc::argument, api,
                 ferry::message{"buffer "} << buffer
                                           << " is published or read: publish another, or wait until it is reusable");
        if (!is_name(name))
            fail(errc::argument, api, "a name has 1 to 200 bytes and no control characters: choose another");
        if (buffer == 0) fail(errc::argument, api, "buffer 0 means none: number buffers from 1");
        if (descriptor.size() > max_descriptor)
            fail(errc::argument, api,
                 ferry::message{"a descriptor of "} << std::uint64_t{descriptor.size()}
                                                    << " bytes; 60000 are the most: describe fewer buffers");
        names fresh;  // allocated before another is removed
        auto& p = fresh.emplace(name, publication{buffer, ++generation_, std::move(descriptor), fds, now, 0, ++used_})
                      .first->second;
        if (auto const old = names_.find(name); old != names_.end()) {
            remove(old);
        } else if (!names_.empty() && names_.size() >= limits_.names) {
            ++counts_.evicted;
            remove(std::ranges::min_element(names_, {}, [](auto const& n) { return n.second.used; }));
        }
        names_.merge(fresh);
        for (auto& each : clients_)
            std::erase_if(each.second.waiting, [&](waiter const& w) {
                if (w.name != name || w.after >= p.generation) return false;
                grant(each.first, each.second, w.request, p, now);
                return true;
            });
        return generation_;
    }
    /// Removes a name; importers may continue to read its buffer. False when nothing is published under it.
    bool withdraw(std::string_view name) {
        auto const found = names_.find(name);
        if (found == names_.end()) return false;
        remove(found);
        return true;
    }
    /// Asks the importers that map a buffer to release it. Withdraw it first; otherwise it can be granted again.
    void retire(std::uint64_t buffer) {
        for (auto& [id, c] : clients_)
            if (c.holds(buffer) && !c.hung_up) say(id, withdrawn{buffer});
    }
    /// Refuses all pending and later attaches, and asks the importers to release all buffers. No effect when closed.
    void close() {
        if (std::exchange(closed_, true)) return;
        while (!names_.empty()) remove(names_.begin());
        for (auto& [id, c] : clients_) {
            // mutant: ipc_close_answers
            for (auto const& w : std::exchange(c.waiting, {})) refuse(id, w.request, reason::closed);
            if (!c.hung_up) say(id, closing{});
        }
    }

    /// Disconnects the importers that hold no buffer.
    void hang_up_idle() {
        for (auto it = clients_.begin(); it != clients_.end();) {
            auto const& [id, c] = *it++;
            if (!c.hung_up && c.held.empty()) disconnect(id);
        }
    }

    // Reports of the I/O layer; `id` is the number of a connection.

    /// Adds an importer that has connected; an `owner` may drop names. False when there are too many, or when closed.
    [[nodiscard]] bool joined(std::uint64_t id, bool owner, instant now) {
        if (closed_ || clients_.size() >= limits_.clients) return false;  // mutant: ipc_client_bound
        auto& c = clients_[id];
        c.owner = owner;
        c.heard = now;
        return true;
    }
    /// Processes a message of an importer. Every request gets a reply, immediately or when its patience ends.
    void received(std::uint64_t id, message const& m, instant now) {
        auto const found = clients_.find(id);
        if (found == clients_.end() || found->second.hung_up) return;
        found->second.heard = now;
        for (auto& l : found->second.leases) l.lapsed = false;
        std::visit([&](auto const& said) { heard(id, found->second, said, now); }, m);
    }
    /// Disconnects an importer that sent a malformed message, or one that only exporters send. It keeps its buffers.
    void violated(std::uint64_t id) {
        ++counts_.violations;
        refuse(id, 0, reason::bad_message);
        disconnect(id);
    }
    /// Reports that the socket of an importer is closed. Its buffers are freed only when its process exits as well.
    void hung_up(std::uint64_t id) { ended(id, &client::hung_up); }
    /// Reports that the process of an importer has exited. Its buffers stay in use while a forked child has its socket.
    void exited(std::uint64_t id) { ended(id, &client::exited); }
    /// Ends the patience of attaches, the time to live of publications, and leases.
    void tick(instant now) {
        for (auto it = names_.begin(); it != names_.end();) {
            auto const p = it++;
            if (!is_over(p->second, now)) continue;
            ++counts_.expired;
            remove(p);
        }
        for (auto& [id, c] : clients_) {
            std::erase_if(c.waiting, [&, i = id](waiter const& w) {
                if (w.until > now) return false;  // mutant: ipc_patience
                refuse(i, w.request, reason::not_published);
                return true;
            });
            if (now - c.heard < limits_.lease) continue;
            for (auto& l : c.leases) {
                if (std::exchange(l.lapsed, true)) continue;
                ++counts_.lapsed;
                events_.push_back({event::what::condemned, l.buffer, id, {}, {}});  // mutant: ipc_lease_frees
            }
        }
    }

    // Queries.

    /// The milliseconds until the next `tick` has an effect, at most the length of a lease.
    [[nodiscard]] instant rest(instant now) const noexcept {
        instant soonest = limits_.lease;
        // No additions, which could overflow: a limit may be the largest number.
        auto const by = [&](instant from, instant limit) {
            soonest = std::min(soonest, limit - std::min(limit, now - std::min(now, from)));
        };
        for (auto const& [id, c] : clients_) {
            for (auto const& w : c.waiting) by(now, w.until - std::min(now, w.until));
            for (auto const& l : c.leases)
                if (!l.lapsed) by(c.heard, limits_.lease);
        }
        if (limits_.time_to_live != 0)
            for (auto const& [name, p] : names_) by(p.since, limits_.time_to_live);
        return soonest;
    }
    /// Whether an importer may read the buffer now. One that `is_published` may be granted at any time.
    [[nodiscard]] bool is_read(std::uint64_t buffer) const noexcept {
        return std::ranges::any_of(clients_, [&](auto const& c) { return c.second.reads(buffer); });
    }
    [[nodiscard]] bool is_held(std::uint64_t buffer) const noexcept {
        return std::ranges::any_of(clients_, [&](auto const& c) { return c.second.holds(buffer); });
    }
    [[nodiscard]] bool is_published(std::uint64_t buffer) const noexcept {
        return std::ranges::any_of(names_, [&](auto const& n) { return n.second.buffer == buffer; });
    }
    /// Whether no importer holds a buffer.
    [[nodiscard]] bool is_idle() const noexcept {
        return std::ranges::all_of(clients_, [](auto const& c) { return c.second.held.empty(); });
    }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    [[nodiscard]] bool knows(std::uint64_t id) const noexcept { return clients_.contains(id); }
    /// The buffers that importers hold, in ascending order.
    [[nodiscard]] std::vector<std::uint64_t> held() const {
        std::set<std::uint64_t> all;
        for (auto const& [id, c] : clients_) all.insert(c.held.begin(), c.held.end());
        return {all.begin(), all.end()};
    }
    [[nodiscard]] statistics counts() const {
        auto s = counts_;
        s.published = names_.size();
        s.clients = clients_.size();
        for (auto const& [id, c] : clients_) {
            s.leases += c.leases.size();
            s.waiting += c.waiting.size();
            s.condemned += static_cast<std::uint64_t>(std::ranges::count_if(c.leases, &lease::lapsed));
        }
        return s;
    }
    [[nodiscard]] std::vector<order> take_orders() { return std::exchange(orders_, {}); }
    [[nodiscard]] std::vector<event> take_events() { return std::exchange(events_, {}); }

   private:
    friend struct state_of;  // defined by tests that compare states

    struct publication {
        std::uint64_t buffer, generation;
        std::vector<std::byte> descriptor;
        std::uint8_t fds;  // number of its file descriptors
        instant since;
        std::uint64_t grants, used;  // number of grants; position in the order of use
    };
    using names = std::map<std::string, publication, std::less<>>;
    struct lease {
        std::uint64_t id, buffer;
        bool lapsed = false;
    };
    struct waiter {
        std::uint64_t request, after;
        std::string name;
        instant until;
    };
    struct client {
        bool owner = false, hung_up = false, exited = false;
        instant heard = 0;
        std::vector<lease> leases;
        std::vector<std::uint64_t> held;  // includes the buffers of all leases
        std::vector<waiter> waiting;
        [[nodiscard]] bool reads(std::uint64_t buffer) const noexcept {
            return std::ranges::find(leases, buffer, &lease::buffer) != leases.end();
        }
        [[nodiscard]] bool holds(std::uint64_t buffer) const noexcept {
            return std::ranges::find(held, buffer) != held.end();
        }
    };

    void heard(std::uint64_t id, client& c, attach const& a, instant now) {
        if (a.finished != 0) finish(id, c, a.finished, {});
        if (closed_) return refuse(id, a.request, reason::closed);
        if (auto const found = names_.find(a.name); found != names_.end() && !is_over(found->second, now)) {
            found->second.used = ++used_;
            if (found->second.generation > a.after) return grant(id, c, a.request, found->second, now);
        }
        if (a.patience == 0) return refuse(id, a.request, reason::not_published);
        if (c.waiting.size() >= limits_.waiting) return refuse(id, a.request, reason::too_many);
        c.waiting.push_back({a.request, a.after, a.name, now + std::min<instant>(a.patience, limits_.patience)});
    }
    void heard(std::uint64_t id, client& c, acknowledge const& a, instant) { finish(id, c, a.lease, a.done); }
    void heard(std::uint64_t, client& c, release const& r, instant) {
        std::size_t const ended =
            // mutant: ipc_release_overtaken
            std::erase_if(c.leases, [&](lease const& l) { return l.buffer == r.buffer && l.id <= r.lease; });
        bool const gone = !c.reads(r.buffer) && std::erase(c.held, r.buffer) != 0;  // mutant: ipc_hold_until_unread
        if (ended != 0 || gone) left(r.buffer, ended != 0);                         // mutant: ipc_own_lease
    }
    void heard(std::uint64_t id, client&, ping const& p, instant) { say(id, done{p.request}); }
    void heard(std::uint64_t id, client&, count const& c, instant) { say(id, counted{c.request, counts()}); }
    void heard(std::uint64_t id, client& c, drop const& d, instant) {
        if (!c.owner) return refuse(id, d.request, reason::permission);  // mutant: ipc_drop_owner
        withdraw(d.name) ? say(id, done{d.request}) : refuse(id, d.request, reason::not_published);
    }
    void heard(std::uint64_t id, client&, list const& l, instant now) {
        listing out{l.request, false, {}};
        constexpr std::size_t most = 128;  // of at most 255 bytes each
        for (auto it = names_.upper_bound(l.after); it != names_.end(); ++it) {
            auto const& p = it->second;
            if ((out.more = out.entries.size() == most)) break;
            auto const among = [&](auto has) {
                return static_cast<std::uint32_t>(std::ranges::count_if(clients_, has));
            };
            out.entries.push_back({it->first, p.buffer, p.generation, p.descriptor.size(), now - p.since, p.grants,
                                   among([&](auto const& c) { return c.second.reads(p.buffer); }),
                                   among([&](auto const& c) { return c.second.holds(p.buffer); })});
        }
        say(id, std::move(out));
    }
    void heard(std::uint64_t id, client&, auto const&, instant) { violated(id); }  // a message that only exporters send

    void grant(std::uint64_t id, client& c, std::uint64_t request, publication& p, instant now) {
        // mutant: ipc_lease_bound
        if (c.leases.size() >= limits_.leases) return refuse(id, request, reason::too_many);
        bool const fresh = !c.holds(p.buffer);
        if (c.leases.empty()) c.heard = now;  // a lease begins with its grant
        c.leases.push_back({++last_lease_, p.buffer});
        if (fresh) c.held.push_back(p.buffer);
        ++p.grants;
        ++counts_.grants;
        say(id, granted{request, last_lease_, p.buffer, p.generation, static_cast<std::uint32_t>(limits_.lease), fresh,
                        fresh ? p.fds : std::uint8_t{0}, p.descriptor});
    }
    void finish(std::uint64_t id, client& c, std::uint64_t which, std::vector<std::byte> const& with) {
        auto const found = std::ranges::find(c.leases, which, &lease::id);
        // Another importer's lease, or one that a release has ended.
        if (found == c.leases.end()) return;
        auto const buffer = found->buffer;
        c.leases.erase(found);
        events_.push_back({event::what::acknowledged, buffer, id, {}, with});
        left(buffer, true);
    }
    /// Called when a buffer loses its name, a reader or a holder: emits an event when it was the last.
    void left(std::uint64_t buffer, bool read) {
        if (is_published(buffer) || is_read(buffer)) return;  // mutant: ipc_told_reusable
        // mutant: ipc_told_freeable
        if (!is_held(buffer)) events_.push_back({event::what::freeable, buffer, 0, {}, {}});
        else if (read) events_.push_back({event::what::reusable, buffer, 0, {}, {}});
    }
    void remove(names::iterator it) {
        auto const buffer = it->second.buffer;
        events_.push_back({event::what::removed, buffer, 0, it->first, {}});
        names_.erase(it);
        left(buffer, true);
    }
    [[nodiscard]] bool is_over(publication const& p, instant now) const noexcept {
        return limits_.time_to_live != 0 && now - p.since >= limits_.time_to_live;  // mutant: ipc_time_to_live
    }
    void disconnect(std::uint64_t id) {
        orders_.push_back({id, {}});
        hung_up(id);
    }
    /// Called when the socket or the process of an importer has ended.
    void ended(std::uint64_t id, bool client::* how) {
        auto const found = clients_.find(id);
        if (found == clients_.end()) return;
        auto& c = found->second;
        c.*how = true;
        if (c.hung_up) c.waiting.clear();
        // mutant: ipc_gone_is_both, ipc_hang_up_frees
        if (!c.hung_up || (!c.exited && !c.held.empty())) return;
        client const gone = std::move(c);
        clients_.erase(found);
        for (auto const buffer : gone.held) left(buffer, gone.reads(buffer));
    }
    void say(std::uint64_t id, message m) { orders_.push_back({id, std::move(m)}); }
    void refuse(std::uint64_t id, std::uint64_t request, reason why) {
        ++counts_.refusals;
        say(id, refused{request, why});
    }

    exporter_limits limits_;
    names names_;
    std::map<std::uint64_t, client> clients_;
    std::uint64_t generation_ = 0, used_ = 0, last_lease_ = 0;
    bool closed_ = false;
    statistics counts_;
    std::vector<order> orders_;
    std::vector<event> events_;
};

}  // namespace protocol
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
