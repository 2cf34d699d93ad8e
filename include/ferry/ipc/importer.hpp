// ferry: an importer's side of the lifetime protocol, as a value: no I/O, no clock, no lock.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>  // names are owned
#include <utility>
#include <vector>  // lists of what is read and held

namespace ferry::inline v0::ipc::protocol {

/// What an importer reads and holds, and what it has asked for.
///
/// Calls make messages, which `take_orders` hands to the I/O in their order. An answer that nobody waits for any more
/// is given back at once, so that a request may be forgotten at any time.
class importer {
   public:
    /// What an importer holds: by number, of which buffer, in which of its generations.
    struct lease {
        std::uint64_t id, buffer, generation;
        bool operator==(lease const&) const = default;
    };

    /// Asks for a publication beyond generation `after`, for `patience` ms; ends the lease `finished` on the way, if
    /// there is one. Returns the request's number, which `received` answers.
    [[nodiscard]] std::uint64_t ask(std::string name, std::uint64_t after, std::uint32_t patience,
                                    std::uint64_t finished = 0) {
        if (finished != 0) end(finished);
        attach a{++last_request_, after, finished, patience, std::move(name)};
        asked_.emplace(a.request, a);
        orders_.push_back(std::move(a));
        return last_request_;
    }
    /// Asks what is answered by one message: ping, list, drop, count.
    template <class Request>
    [[nodiscard]] std::uint64_t ask(Request r) {
        r.request = ++last_request_;
        asked_.emplace(r.request, r);
        orders_.push_back(std::move(r));
        return last_request_;
    }
    /// Nobody waits for the answer any more.
    void forget(std::uint64_t request) { asked_.erase(request); }

    /// The reading that the lease covers is over.
    /// \throws error  errc::argument: a lease that is not held, or more than 256 bytes
    void finish(std::uint64_t which, std::vector<std::byte> done = {}) {
        if (done.size() > max_done)
            ferry::detail::fail(errc::argument, "ferry::ipc::acknowledge",
                                "more than 256 bytes with an acknowledgement");
        end(which);
        orders_.push_back(acknowledge{which, std::move(done)});
    }
    /// The buffer is unmapped; leases on it end. A buffer that is not held changes nothing.
    void give_up(std::uint64_t buffer) {
        auto const found = held_.find(buffer);
        if (found == held_.end()) return;
        orders_.push_back(release{buffer, found->second});
        held_.erase(found);
        std::erase_if(leases_, [&](lease const& l) { return l.buffer == buffer; });
        std::erase(withdrawn_, buffer);
    }
    /// Everything is unmapped.
    void give_up_all() {
        while (!held_.empty()) give_up(held_.begin()->first);
    }

    /// Takes a message of the exporter, and returns it if it answers a request.
    /// \throws error  errc::bad_descriptor: no answer to what was asked, or no word of an exporter
    [[nodiscard]] std::optional<message> received(message m) {
        if (auto* g = std::get_if<granted>(&m)) return grant(std::move(*g));
        if (auto* r = std::get_if<refused>(&m)) {
            if (r->request == 0) {
                refused_ = r->why;
                return {};
            }
            return asked_.erase(r->request) != 0 ? std::optional{std::move(m)} : std::nullopt;
        }
        if (auto* d = std::get_if<done>(&m)) return answers<ping, drop>(d->request, std::move(m));
        if (auto* l = std::get_if<listing>(&m)) return answers<list>(l->request, std::move(m));
        if (auto* c = std::get_if<counted>(&m)) return answers<count>(c->request, std::move(m));
        if (auto* w = std::get_if<withdrawn>(&m)) {
            if (holds(w->buffer) && std::ranges::find(withdrawn_, w->buffer) == withdrawn_.end())
                withdrawn_.push_back(w->buffer);
            return {};
        }
        if (!std::holds_alternative<closing>(m)) wrong("an importer's words");
        closing_ = true;
        return {};
    }

    [[nodiscard]] bool reads(std::uint64_t buffer) const noexcept {
        return std::ranges::find(leases_, buffer, &lease::buffer) != leases_.end();
    }
    [[nodiscard]] bool holds(std::uint64_t buffer) const noexcept { return held_.contains(buffer); }
    [[nodiscard]] std::vector<lease> const& leases() const noexcept { return leases_; }
    /// Every held buffer with the last lease that covered it.
    [[nodiscard]] std::map<std::uint64_t, std::uint64_t> const& held() const noexcept { return held_; }
    /// Held buffers that the exporter wants back for good.
    [[nodiscard]] std::vector<std::uint64_t> const& withdrawn_buffers() const noexcept { return withdrawn_; }
    /// The exporter closes.
    [[nodiscard]] bool is_closing() const noexcept { return closing_; }
    /// Why the exporter hangs up, if it said so.
    [[nodiscard]] std::optional<reason> refused_because() const noexcept { return refused_; }
    [[nodiscard]] std::vector<message> take_orders() { return std::exchange(orders_, {}); }

    bool operator==(importer const&) const = default;

   private:
    friend struct state_of;  // defined by tests that tell states apart

    [[noreturn]] static void wrong(char const* what) {
        ferry::detail::fail(errc::bad_descriptor, "ferry::ipc::protocol::importer",
                            ferry::message{} << what << " came from the exporter: it is no ferry server");
    }
    void end(std::uint64_t which) {
        if (std::erase_if(leases_, [&](lease const& l) { return l.id == which; }) == 0)
            ferry::detail::fail(errc::argument, "ferry::ipc::acknowledge",
                                ferry::message{} << "lease " << which << " is not held: acknowledge each grant once");
    }
    template <class... Requests>
    std::optional<message> answers(std::uint64_t request, message m) {
        auto const found = asked_.find(request);
        if (found == asked_.end()) return {};
        if (!(std::holds_alternative<Requests>(found->second) || ...)) wrong("the answer to another question");
        asked_.erase(found);
        return m;
    }
    std::optional<message> grant(granted g) {
        auto const asked = asked_.find(g.request);
        if (asked != asked_.end() && !std::holds_alternative<attach>(asked->second))
            wrong("the answer to another question");
        // Granted as held while the release was on its way: without file descriptors it cannot be mapped again. Ask
        // once more.
        if (!g.fresh && !holds(g.buffer)) {  // mutant: ipc_grant_without_hold
            orders_.push_back(release{g.buffer, g.lease});
            if (asked == asked_.end()) return {};
            auto again = std::get<attach>(asked->second);
            again.finished = 0;
            orders_.push_back(std::move(again));
            return {};
        }
        // mutant: ipc_orphan_given_back
        if (asked == asked_.end()) {  // nobody waits for it: given back
            if (g.fresh) {
                orders_.push_back(release{g.buffer, g.lease});
            } else {
                orders_.push_back(acknowledge{g.lease, {}});
            }
            return {};
        }
        asked_.erase(asked);
        leases_.push_back({g.lease, g.buffer, g.generation});
        held_.insert_or_assign(g.buffer, g.lease);
        return g;
    }

    std::uint64_t last_request_ = 0;
    std::map<std::uint64_t, message> asked_;
    std::vector<lease> leases_;
    std::map<std::uint64_t, std::uint64_t> held_;
    std::vector<std::uint64_t> withdrawn_;
    bool closing_ = false;
    std::optional<reason> refused_;
    std::vector<message> orders_;
};

}  // namespace ferry::inline v0::ipc::protocol
