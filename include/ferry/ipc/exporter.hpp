// ferry: the exporter's side of the lifetime protocol, as a value: no I/O, no clock, no lock.
// length: one state machine, whose rules are read together.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/message.hpp>
#include <ferry/ipc/registry.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

/// Records which importer reads and which maps each buffer, and decides the replies.
///
/// A buffer is *read* from its grant to the acknowledgement, the release or the end of the importer; *held* (mapped)
/// from its first grant to the release or that end. An importer has ended when its process has exited **and** its
/// socket is closed: a socket can close while the mapping exists, and a forked child can keep both after the process
/// has exited. A lapsed lease only condemns the buffer.
class exporter {
   public:
    /// An action for the I/O layer, to be performed in this order: send a message, with the file descriptors of the
    /// buffer if the message is a fresh grant, or close the connection.
    struct order {
        std::uint64_t client;
        std::optional<message> say;  ///< empty: close the connection
        bool operator==(order const&) const = default;
    };

    explicit exporter(exporter_limits l = {}) : limits_{l}, registry_{l.names, l.time_to_live} {}

    // Calls of the owner of the buffers.

    /// Publishes a buffer under a name, replacing the previous publication, and replies to the attaches that wait for
    /// it.
    /// \param name        the name; see `registry`
    /// \param buffer      number of the buffer, from 1
    /// \param descriptor  bytes for importers
    /// \param fds         number of file descriptors
    /// \param now         current time
    /// \return            generation of the publication
    /// \throws error  errc::argument: the buffer is published or read, or the name is invalid; errc::exporter_gone:
    ///                closed
    std::uint64_t publish(std::string_view name, std::uint64_t buffer, std::vector<std::byte> descriptor,
                          std::uint8_t fds, instant now) {
        constexpr auto api = "ferry::ipc::publish";
        if (closed_) ferry::detail::fail(errc::exporter_gone, api, "the server is closed: make another");
        if (registry_.holds(buffer) || is_read(buffer))  // mutant: ipc_publish_read
            ferry::detail::fail(errc::argument, api,
                                ferry::message{}
                                    << "buffer " << buffer
                                    << " is published or read: publish another, or wait until it is reusable");
        for (auto& p : registry_.publish(name, buffer, std::move(descriptor), fds, now)) {
            if (p.name != name) ++counts_.evicted;
            removed(std::move(p));
        }
        for (auto& [id, c] : clients_) {
            std::vector<waiter> ready;
            std::erase_if(c.waiting, [&](waiter& w) {
                if (w.name != name || w.after >= registry_.generation()) return false;
                ready.push_back(std::move(w));
                return true;
            });
            for (auto const& w : ready) answer(id, c, w, now);
        }
        return registry_.generation();
    }
    /// Removes a name; importers may continue to read its buffer.
    /// \param name  the name
    /// \return      false when nothing is published under it
    bool withdraw(std::string_view name) {
        auto gone = registry_.withdraw(name);
        for (auto& p : gone) removed(std::move(p));
        return !gone.empty();
    }
    /// Asks the importers that map a buffer to release it. Withdraw it first; otherwise it can be granted again.
    /// \param buffer  number of the buffer
    void retire(std::uint64_t buffer) {
        for (auto& [id, c] : clients_)
            if (c.holds(buffer) && !c.hung_up) say(id, withdrawn{buffer});
    }
    /// Refuses all pending and later attaches, and asks the importers to release all buffers. No effect when closed.
    void close() {
        if (std::exchange(closed_, true)) return;
        while (!registry_.all().empty()) withdraw(std::string{registry_.all().begin()->first});
        for (auto& [id, c] : clients_) {
            // mutant: ipc_close_answers
            for (auto const& w : std::exchange(c.waiting, {})) refuse(id, w.request, reason::closed);
            if (!c.hung_up) say(id, closing{});
        }
    }

    // Reports of the I/O layer.

    /// Adds an importer that has connected.
    /// \param id     number of the connection
    /// \param owner  whether it may drop names
    /// \param now    current time
    /// \return       false when there are too many, or the exporter is closed
    [[nodiscard]] bool joined(std::uint64_t id, bool owner, instant now) {
        if (closed_ || clients_.size() >= limits_.clients) return false;  // mutant: ipc_client_bound
        client c;
        c.owner = owner;
        c.heard = now;
        clients_.emplace(id, std::move(c));
        return true;
    }
    /// Processes a message of an importer. Every request gets a reply, immediately or when its patience ends.
    /// \param id   number of the connection
    /// \param m    the message
    /// \param now  current time
    void received(std::uint64_t id, message const& m, instant now) {
        auto const found = clients_.find(id);
        if (found == clients_.end() || found->second.hung_up) return;
        found->second.heard = now;
        for (auto& l : found->second.leases) l.lapsed = false;
        if (std::visit([&](auto const& said) { return heard(id, found->second, said, now); }, m)) return;
        violated(id);
    }
    /// Disconnects an importer that sent a malformed message, or one that only exporters send. It keeps its buffers.
    /// \param id  number of the connection
    void violated(std::uint64_t id) {
        ++counts_.violations;
        refuse(id, 0, reason::bad_message);
        orders_.push_back({id, {}});
        hung_up(id);
    }
    /// Reports that the socket of an importer is closed. Its buffers are freed only when its process exits as well.
    /// \param id  number of the connection
    void hung_up(std::uint64_t id) {
        if (auto const found = clients_.find(id); found != clients_.end()) {
            found->second.hung_up = true;
            found->second.waiting.clear();
            bury(found);
        }
    }
    /// Reports that the process of an importer has exited. Its buffers stay in use while a forked child has its socket.
    /// \param id  number of the connection
    void exited(std::uint64_t id) {
        if (auto const found = clients_.find(id); found != clients_.end()) {
            found->second.exited = true;
            bury(found);
        }
    }
    /// Ends the patience of attaches, the time to live of publications, and leases.
    /// \param now  current time
    void tick(instant now) {
        for (auto& p : registry_.expire(now)) {
            ++counts_.expired;
            removed(std::move(p));
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

    /// Returns the milliseconds until the next `tick` has an effect, at most the length of a lease.
    /// \param now  current time
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
            for (auto const& [name, p] : registry_.all()) by(p.since, limits_.time_to_live);
        return soonest;
    }
    /// Returns whether an importer may read the buffer now. One that `is_published` may be granted at any time.
    [[nodiscard]] bool is_read(std::uint64_t buffer) const noexcept {
        return std::ranges::any_of(clients_, [&](auto const& c) { return c.second.reads(buffer); });
    }
    /// Returns whether an importer has the buffer mapped.
    [[nodiscard]] bool is_held(std::uint64_t buffer) const noexcept {
        return std::ranges::any_of(clients_, [&](auto const& c) { return c.second.holds(buffer); });
    }
    /// Returns whether the buffer is published under a name.
    [[nodiscard]] bool is_published(std::uint64_t buffer) const noexcept { return registry_.holds(buffer); }
    /// Returns whether no client has a buffer.
    [[nodiscard]] bool is_idle() const noexcept {
        return std::ranges::all_of(clients_, [](auto const& c) { return c.second.held.empty(); });
    }
    /// Returns whether the client with this id has no buffer.
    [[nodiscard]] bool is_idle(std::uint64_t id) const noexcept {
        auto const found = clients_.find(id);
        return found == clients_.end() || found->second.held.empty();
    }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    [[nodiscard]] bool knows(std::uint64_t id) const noexcept { return clients_.contains(id); }
    /// Returns the buffers that importers hold, in ascending order.
    [[nodiscard]] std::vector<std::uint64_t> held() const {
        std::set<std::uint64_t> all;
        for (auto const& [id, c] : clients_) all.insert(c.held.begin(), c.held.end());
        return {all.begin(), all.end()};
    }
    [[nodiscard]] statistics counts() const {
        auto s = counts_;
        s.published = registry_.all().size();
        s.clients = clients_.size();
        for (auto const& [id, c] : clients_) {
            s.leases += c.leases.size();
            s.waiting += c.waiting.size();
            s.condemned += static_cast<std::uint64_t>(std::ranges::count_if(c.leases, &lease::lapsed));
        }
        return s;
    }
    /// Returns and clears the actions, and the events, since the last call.
    [[nodiscard]] std::vector<order> take_orders() { return std::exchange(orders_, {}); }
    [[nodiscard]] std::vector<event> take_events() { return std::exchange(events_, {}); }

    bool operator==(exporter const&) const = default;

   private:
    friend struct state_of;  // defined by tests that compare states

    struct lease {
        std::uint64_t id, buffer;
        bool lapsed = false;
        bool operator==(lease const&) const = default;
    };
    struct waiter {
        std::uint64_t request, after;
        std::string name;
        instant until;
        bool operator==(waiter const&) const = default;
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
        bool operator==(client const&) const = default;
    };
    using clients = std::map<std::uint64_t, client>;

    bool heard(std::uint64_t id, client& c, attach const& a, instant now) {
        if (a.finished != 0) finish(id, c, a.finished, {});
        waiter w{a.request, a.after, a.name, now + std::min<instant>(a.patience, limits_.patience)};
        if (closed_) refuse(id, a.request, reason::closed);
        else if (auto const* p = registry_.use(a.name, now); p != nullptr && p->generation > a.after)
            answer(id, c, w, now);
        else if (a.patience == 0) refuse(id, a.request, reason::not_published);
        else if (c.waiting.size() >= limits_.waiting) refuse(id, a.request, reason::too_many);
        else c.waiting.push_back(std::move(w));
        return true;
    }
    bool heard(std::uint64_t id, client& c, acknowledge const& a, instant) {
        finish(id, c, a.lease, a.done);
        return true;
    }
    bool heard(std::uint64_t, client& c, release const& r, instant) {
        std::size_t const ended =
            // mutant: ipc_release_overtaken
            std::erase_if(c.leases, [&](lease const& l) { return l.buffer == r.buffer && l.id <= r.lease; });
        bool const gone = !c.reads(r.buffer) && std::erase(c.held, r.buffer) != 0;  // mutant: ipc_hold_until_unread
        if (ended != 0 || gone) left(r.buffer, ended != 0);                         // mutant: ipc_own_lease
        return true;
    }
    bool heard(std::uint64_t id, client&, ping const& p, instant) { return say(id, done{p.request}); }
    bool heard(std::uint64_t id, client&, count const& c, instant) { return say(id, counted{c.request, counts()}); }
    bool heard(std::uint64_t id, client& c, drop const& d, instant) {
        if (!c.owner) return refuse(id, d.request, reason::permission);  // mutant: ipc_drop_owner
        return withdraw(d.name) ? say(id, done{d.request}) : refuse(id, d.request, reason::not_published);
    }
    bool heard(std::uint64_t id, client&, list const& l, instant now) {
        listing out{l.request, false, {}};
        constexpr std::size_t most = 128;  // of at most 255 bytes each
        for (auto it = registry_.all().upper_bound(l.after); it != registry_.all().end() && !out.more; ++it) {
            auto const& p = it->second;
            if ((out.more = out.entries.size() == most)) break;
            auto const among = [&](auto has) {
                return static_cast<std::uint32_t>(std::ranges::count_if(clients_, has));
            };
            out.entries.push_back({p.name, p.buffer, p.generation, p.descriptor.size(), now - p.since, p.grants,
                                   among([&](auto const& c) { return c.second.reads(p.buffer); }),
                                   among([&](auto const& c) { return c.second.holds(p.buffer); })});
        }
        return say(id, std::move(out));
    }
    bool heard(std::uint64_t, client&, auto const&, instant) { return false; }  // a message that only exporters send

    void answer(std::uint64_t id, client& c, waiter const& w, instant now) {
        auto const* p = registry_.use(w.name, now);
        if (p == nullptr) return static_cast<void>(refuse(id, w.request, reason::not_published));
        // mutant: ipc_lease_bound
        if (c.leases.size() >= limits_.leases) return static_cast<void>(refuse(id, w.request, reason::too_many));
        bool const fresh = !c.holds(p->buffer);
        if (c.leases.empty()) c.heard = now;  // a lease begins with its grant
        c.leases.push_back({++last_lease_, p->buffer});
        if (fresh) c.held.push_back(p->buffer);
        ++counts_.grants;
        say(id, granted{w.request, last_lease_, p->buffer, p->generation, static_cast<std::uint32_t>(limits_.lease),
                        fresh, fresh ? p->fds : std::uint8_t{0}, p->descriptor});
        registry_.count_grant(w.name);
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
        if (registry_.holds(buffer) || is_read(buffer)) return;  // mutant: ipc_told_reusable
        // mutant: ipc_told_freeable
        if (!is_held(buffer)) events_.push_back({event::what::freeable, buffer, 0, {}, {}});
        else if (read) events_.push_back({event::what::reusable, buffer, 0, {}, {}});
    }
    void removed(publication&& p) {
        events_.push_back({event::what::removed, p.buffer, 0, std::move(p.name), {}});
        left(p.buffer, true);
    }
    void bury(clients::iterator it) {
        auto& c = it->second;
        // mutant: ipc_gone_is_both, ipc_hang_up_frees
        if (!c.hung_up || (!c.exited && !c.held.empty())) return;
        client const gone = std::move(c);
        clients_.erase(it);
        for (auto const buffer : gone.held) left(buffer, gone.reads(buffer));
    }
    bool say(std::uint64_t id, message m) {
        orders_.push_back({id, std::move(m)});
        return true;
    }
    bool refuse(std::uint64_t id, std::uint64_t request, reason why) {
        ++counts_.refusals;
        return say(id, refused{request, why});
    }

    exporter_limits limits_;
    registry registry_;
    clients clients_;
    std::uint64_t last_lease_ = 0;
    bool closed_ = false;
    statistics counts_;
    std::vector<order> orders_;
    std::vector<event> events_;
};

}  // namespace protocol
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
