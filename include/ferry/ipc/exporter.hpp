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
#include <string>  // names are owned
#include <string_view>
#include <utility>
#include <vector>  // lists of what is read and held

namespace ferry::inline v0::ipc {

/// What the owner of the buffers should know.
struct event {
    enum class what : std::uint8_t {
        acknowledged,  ///< an importer has read the buffer; `done` is what it sent along
        reusable,      ///< nobody reads the buffer: write it again, do not free it, importers keep it mapped
        freeable,      ///< nobody reads or maps it: write it or free it
        condemned,     ///< a reader ran past its lease: the buffer comes back when it answers or exits, or never
        removed,       ///< the name is gone: replaced, evicted, expired, dropped or withdrawn
    };
    what kind{};
    std::uint64_t buffer = 0;
    std::uint64_t client = 0;     ///< acknowledged, condemned: who
    std::string name;             ///< removed
    std::vector<std::byte> done;  ///< acknowledged
    bool operator==(event const&) const = default;
};

/// Bounds of an exporter. Times in milliseconds.
struct exporter_limits {
    std::size_t clients = 256;    ///< connections, and importers that hung up and still hold something
    std::size_t leases = 64;      ///< of one importer, at a time
    std::size_t waiting = 16;     ///< attaches of one importer that wait for a publication
    std::size_t names = 1024;     ///< published at a time; the least recently used goes
    instant time_to_live = 0;     ///< of a publication; 0: no end
    instant lease = 5000;         ///< without a sign of life for so long, what a reader reads is condemned
    instant patience = 3600'000;  ///< an attach waits no longer
    bool operator==(exporter_limits const&) const = default;
};

namespace protocol {

/// Who reads and who maps which buffer, and what is answered.
///
/// A buffer is *read* from its grant to the acknowledgement, the release or the end of the importer; *held* (mapped)
/// from its first grant to the release or that end. An importer has ended when its process has exited **and** its
/// socket is closed: a socket alone may close while the mapping lives, and a process alone may leave a forked child
/// with both. A lease only condemns.
class exporter {
   public:
    /// What the I/O has to do, in this order: send a message, with the buffer's file descriptors or without; or hang
    /// up.
    struct order {
        std::uint64_t client;
        std::optional<message> say;  ///< empty: hang up
        bool operator==(order const&) const = default;
    };

    explicit exporter(exporter_limits l = {}) : limits_{l}, registry_{l.names, l.time_to_live} {}

    // What the owner of the buffers does.

    /// Publishes a buffer, in place of what had the name, and answers who waits for it. Returns its generation.
    /// \throws error  errc::argument: a buffer that is published or read, a bad name (see registry); exporter_gone:
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
    /// Removes a name; who reads the buffer goes on reading it. False if there is none.
    bool withdraw(std::string_view name) {
        auto gone = registry_.withdraw(name);
        for (auto& p : gone) removed(std::move(p));
        return !gone.empty();
    }
    /// Asks the importers that keep a buffer mapped to release it. Withdraw it first, or it is handed out again.
    void retire(std::uint64_t buffer) {
        for (auto& [id, c] : clients_)
            if (c.holds(buffer) && !c.hung_up) say(id, withdrawn{buffer});
    }
    /// Ends all attaches, now and later, and asks for everything back. Twice is fine.
    void close() {
        if (std::exchange(closed_, true)) return;
        while (!registry_.all().empty()) withdraw(std::string{registry_.all().begin()->first});
        for (auto& [id, c] : clients_) {
            // mutant: ipc_close_answers
            for (auto const& w : std::exchange(c.waiting, {})) refuse(id, w.request, reason::closed);
            if (!c.hung_up) say(id, closing{});
        }
    }

    // What the I/O reports.

    /// A connection of a permitted user. `owner`: it may drop names. False if there are too many.
    [[nodiscard]] bool joined(std::uint64_t id, bool owner, instant now) {
        if (closed_ || clients_.size() >= limits_.clients) return false;  // mutant: ipc_client_bound
        client c;
        c.owner = owner;
        c.heard = now;
        clients_.emplace(id, std::move(c));
        return true;
    }
    /// A message of an importer. Every request is answered, now or when its patience ends.
    void received(std::uint64_t id, message const& m, instant now) {
        auto const found = clients_.find(id);
        if (found == clients_.end() || found->second.hung_up) return;
        found->second.heard = now;
        for (auto& l : found->second.leases) l.lapsed = false;
        if (std::visit([&](auto const& said) { return heard(id, found->second, said, now); }, m)) return;
        violated(id);
    }
    /// A message that is none, or one that only an exporter sends: the importer is hung up on, and keeps what it reads.
    void violated(std::uint64_t id) {
        ++counts_.violations;
        refuse(id, 0, reason::bad_message);
        orders_.push_back({id, {}});
        hung_up(id);
    }
    /// The socket of an importer is closed. It may still read: only its process's end frees that.
    void hung_up(std::uint64_t id) {
        if (auto const found = clients_.find(id); found != clients_.end()) {
            found->second.hung_up = true;
            found->second.waiting.clear();
            bury(found);
        }
    }
    /// The process of an importer has exited. Its forked children may still read, as long as they have its socket.
    void exited(std::uint64_t id) {
        if (auto const found = clients_.find(id); found != clients_.end()) {
            found->second.exited = true;
            bury(found);
        }
    }
    /// Time has passed: patience and publications end, leases lapse.
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

    // Questions.

    /// Milliseconds until `tick` has something to do, if nothing else happens: never more than a lease.
    [[nodiscard]] instant rest(instant now) const noexcept {
        instant soonest = limits_.lease;
        // No sums: a limit may be the largest number.
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
    /// Whether an importer may read the buffer now. Not if it may be handed out: see `is_published`.
    [[nodiscard]] bool is_read(std::uint64_t buffer) const noexcept {
        return std::ranges::any_of(clients_, [&](auto const& c) { return c.second.reads(buffer); });
    }
    [[nodiscard]] bool is_held(std::uint64_t buffer) const noexcept {
        return std::ranges::any_of(clients_, [&](auto const& c) { return c.second.holds(buffer); });
    }
    [[nodiscard]] bool is_published(std::uint64_t buffer) const noexcept { return registry_.holds(buffer); }
    /// Nobody reads or holds anything.
    [[nodiscard]] bool is_idle() const noexcept {
        return std::ranges::all_of(clients_,
                                   [](auto const& c) { return c.second.leases.empty() && c.second.held.empty(); });
    }
    /// An importer, that is.
    [[nodiscard]] bool is_idle(std::uint64_t id) const noexcept {
        auto const found = clients_.find(id);
        return found == clients_.end() || (found->second.leases.empty() && found->second.held.empty());
    }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    [[nodiscard]] bool knows(std::uint64_t id) const noexcept { return clients_.contains(id); }
    /// The buffers that importers still hold.
    [[nodiscard]] std::vector<std::uint64_t> held() const {
        std::vector<std::uint64_t> all;
        for (auto const& [id, c] : clients_) all.insert(all.end(), c.held.begin(), c.held.end());
        std::ranges::sort(all);
        all.erase(std::ranges::unique(all).begin(), all.end());
        return all;
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
    /// What is to be done, and what is to be known, since the last call.
    [[nodiscard]] std::vector<order> take_orders() { return std::exchange(orders_, {}); }
    [[nodiscard]] std::vector<event> take_events() { return std::exchange(events_, {}); }

    bool operator==(exporter const&) const = default;

   private:
    friend struct state_of;  // defined by tests that tell states apart

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
        std::vector<std::uint64_t> held;
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
    bool heard(std::uint64_t, client&, auto const&, instant) { return false; }  // an exporter's words

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
        // Another importer's lease, or one that a release ended: nothing is given back.
        if (found == c.leases.end()) return;
        auto const buffer = found->buffer;
        c.leases.erase(found);
        events_.push_back({event::what::acknowledged, buffer, id, {}, with});
        left(buffer, true);
    }
    /// The name of a buffer is gone, or one who read or held it: says so when it was the last.
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
        if (!c.hung_up || (!c.exited && !(c.leases.empty() && c.held.empty()))) return;
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
}  // namespace ferry::inline v0::ipc
