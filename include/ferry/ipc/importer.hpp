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

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::protocol {

/// Records which buffers an importer reads and holds, and its pending requests.
///
/// Functions queue messages, which `take_orders` returns to the I/O layer in their order. A grant for a request that
/// was forgotten is released immediately, so that a request can be forgotten at any time.
class importer {
   public:
    /// A lease: its number, the buffer, and the generation of the publication.
    struct lease {
        std::uint64_t id, buffer, generation;
        bool operator==(lease const&) const = default;
    };

    /// Requests a publication of a name, and ends a lease with the same message.
    /// \param name      the name
    /// \param after     only publications with a higher generation
    /// \param patience  milliseconds to wait for one
    /// \param finished  number of the lease to end; 0: none
    /// \return          number of the request, which the reply repeats
    /// \throws error  errc::argument: the lease is not held
    [[nodiscard]] std::uint64_t ask(std::string name, std::uint64_t after, std::uint32_t patience,
                                    std::uint64_t finished = 0) {
        if (finished != 0) end(finished);
        attach a{++last_request_, after, finished, patience, std::move(name)};
        asked_.emplace(a.request, a);
        orders_.push_back(std::move(a));
        return last_request_;
    }
    /// Queues a request that has one message as its reply: ping, list, drop or count.
    /// \param r  the request
    /// \return   number of the request
    template <class Request>
    [[nodiscard]] std::uint64_t ask(Request r) {
        r.request = ++last_request_;
        asked_.emplace(r.request, r);
        orders_.push_back(std::move(r));
        return last_request_;
    }
    /// Discards a request: its reply is ignored, and a grant is released.
    /// \param request  number of the request
    void forget(std::uint64_t request) { asked_.erase(request); }

    /// Ends a lease after its buffer has been read.
    /// \param which  number of the lease
    /// \param done   bytes for the exporter
    /// \throws error  errc::argument: the lease is not held, or `done` has more than 256 bytes
    void finish(std::uint64_t which, std::vector<std::byte> done = {}) {
        if (done.size() > max_done)
            ferry::detail::fail(errc::argument, "ferry::ipc::acknowledge",
                                "more than 256 bytes with an acknowledgement");
        end(which);
        orders_.push_back(acknowledge{which, std::move(done)});
    }
    /// Reports that a buffer is unmapped, and ends its leases.
    /// \param buffer  number of the buffer; no effect when it is not held
    void give_up(std::uint64_t buffer) {
        auto const found = held_.find(buffer);
        if (found == held_.end()) return;
        orders_.push_back(release{buffer, found->second});
        held_.erase(found);
        std::erase_if(leases_, [&](lease const& l) { return l.buffer == buffer; });
        std::erase(withdrawn_, buffer);
    }
    /// Reports that all buffers are unmapped.
    void give_up_all() {
        while (!held_.empty()) give_up(held_.begin()->first);
    }

    /// Processes a message of the exporter.
    /// \param m  the message
    /// \return   the message when it is the reply to a pending request
    /// \throws error  errc::bad_descriptor: not the reply to its request, or a message that only importers send
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
    /// Returns the held buffers, each with the last lease on it.
    [[nodiscard]] std::map<std::uint64_t, std::uint64_t> const& held() const noexcept { return held_; }
    /// Returns the held buffers that the exporter has asked to release.
    [[nodiscard]] std::vector<std::uint64_t> const& withdrawn_buffers() const noexcept { return withdrawn_; }
    /// Returns whether the exporter is closing.
    [[nodiscard]] bool is_closing() const noexcept { return closing_; }
    /// Returns the reason that the exporter gave for closing the connection; empty: none.
    [[nodiscard]] std::optional<reason> refused_because() const noexcept { return refused_; }
    [[nodiscard]] std::vector<message> take_orders() { return std::exchange(orders_, {}); }

    bool operator==(importer const&) const = default;

   private:
    friend struct state_of;  // defined by tests that compare states

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
        // The grant crossed a release: the buffer is no longer mapped, and no file descriptors came to map it again.
        // Repeat the request.
        if (!g.fresh && !holds(g.buffer)) {  // mutant: ipc_grant_without_hold
            orders_.push_back(release{g.buffer, g.lease});
            if (asked == asked_.end()) return {};
            auto again = std::get<attach>(asked->second);
            again.finished = 0;
            orders_.push_back(std::move(again));
            return {};
        }
        // mutant: ipc_orphan_given_back
        if (asked == asked_.end()) {  // the request was forgotten: the grant is released
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

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::protocol
