// ferry: an importer's side of the lifetime protocol, as a value: no I/O, no clock, no lock.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>  // lists of what is read and held

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::protocol {
using ferry::detail::fail;

/// Which buffers an importer reads and holds, and its pending requests.
///
/// Functions queue messages, which `take_orders` returns to the I/O layer in their order. A grant for a request that
/// was forgotten is released immediately, so that a request can be forgotten at any time.
class importer {
   public:
    /// A lease: its number, the buffer, and the generation of the publication.
    struct lease {
        std::uint64_t id, buffer, generation;
    };

    /// Queues a request, and returns its number, which the reply repeats.
    template <class Request>
    [[nodiscard]] std::uint64_t ask(Request r) {
        if constexpr (std::is_same_v<Request, attach>)
            if (r.finished != 0) end(r.finished);
        r.request = ++last_request_;
        asked_.emplace(r.request, r);
        orders_.push_back(std::move(r));
        return last_request_;
    }
    /// Discards a request: its reply is ignored, and a grant is released.
    void forget(std::uint64_t request) { asked_.erase(request); }

    /// Ends a lease after its buffer has been read.
    void finish(std::uint64_t which, std::vector<std::byte> done = {}) {
        if (done.size() > max_done)
            fail(errc::argument, "ferry::ipc::acknowledge", "more than 256 bytes with an acknowledgement");
        end(which);
        orders_.push_back(acknowledge{which, std::move(done)});
    }
    /// Reports that a buffer is unmapped, and ends its leases. No effect when it is not held.
    void give_up(std::uint64_t buffer) {
        auto const found = held_.find(buffer);
        if (found == held_.end()) return;
        orders_.push_back(release{buffer, found->second});
        held_.erase(found);
        std::erase_if(leases_, [&](lease const& l) { return l.buffer == buffer; });
        std::erase(withdrawn_, buffer);
    }
    void give_up_all() {
        while (!held_.empty()) give_up(held_.begin()->first);
    }

    /// Processes a message of the exporter, and returns it when it is the reply to a pending request.
    [[nodiscard]] std::optional<message> received(message m) {
        return std::visit([&](auto& said) { return heard(said); }, m) ? std::optional{std::move(m)} : std::nullopt;
    }

    [[nodiscard]] bool holds(std::uint64_t buffer) const noexcept { return held_.contains(buffer); }
    [[nodiscard]] std::vector<lease> const& leases() const noexcept { return leases_; }
    /// The held buffers, each with the last lease on it.
    [[nodiscard]] std::map<std::uint64_t, std::uint64_t> const& held() const noexcept { return held_; }
    /// The held buffers that the exporter has asked to release.
    [[nodiscard]] std::vector<std::uint64_t> const& withdrawn_buffers() const noexcept { return withdrawn_; }
    [[nodiscard]] bool is_closing() const noexcept { return closing_; }
    /// The reason that the exporter gave for closing the connection; empty: none.
    [[nodiscard]] std::optional<reason> refused_because() const noexcept { return refused_; }
    [[nodiscard]] std::vector<message> take_orders() { return std::exchange(orders_, {}); }

   private:
    friend struct state_of;  // defined by tests that compare states

    // Whether the message is the reply to a pending request.
    bool heard(granted const& g) {
        auto const asked = asked_.find(g.request);
        bool const is_orphan = asked == asked_.end();  // the request was forgotten
        if (!is_orphan && !std::holds_alternative<attach>(asked->second)) wrong("the answer to another question");
        // The grant crossed a release: the buffer is no longer mapped, and no file descriptors came to map it again.
        // Repeat the request.
        if (!g.fresh && !holds(g.buffer)) {  // mutant: ipc_grant_without_hold
            orders_.push_back(release{g.buffer, g.lease});
            if (is_orphan) return false;
            auto& again = orders_.emplace_back(asked->second);
            std::get<attach>(again).finished = 0;
            return false;
        }
        if (is_orphan) {  // mutant: ipc_orphan_given_back
            if (g.fresh) orders_.push_back(release{g.buffer, g.lease});
            else orders_.push_back(acknowledge{g.lease, {}});
            return false;
        }
        asked_.erase(asked);
        leases_.push_back({g.lease, g.buffer, g.generation});
        held_.insert_or_assign(g.buffer, g.lease);
        return true;
    }
    bool heard(refused const& r) {
        if (r.request != 0) return asked_.erase(r.request) != 0;
        refused_ = r.why;
        return false;
    }
    bool heard(done const& d) { return answers<ping, drop>(d.request); }
    bool heard(listing const& l) { return answers<list>(l.request); }
    bool heard(counted const& c) { return answers<count>(c.request); }
    bool heard(withdrawn const& w) {
        if (holds(w.buffer) && std::ranges::find(withdrawn_, w.buffer) == withdrawn_.end())
            withdrawn_.push_back(w.buffer);
        return false;
    }
    bool heard(closing const&) {
        closing_ = true;
        return false;
    }
    bool heard(auto const&) { wrong("an importer's words"); }

    template <class... Requests>
    bool answers(std::uint64_t request) {
        auto const found = asked_.find(request);
        if (found == asked_.end()) return false;
        if (!(std::holds_alternative<Requests>(found->second) || ...)) wrong("the answer to another question");
        asked_.erase(found);
        return true;
    }
    void end(std::uint64_t which) {
        if (std::erase_if(leases_, [&](lease const& l) { return l.id == which; }) == 0)
            fail(errc::argument, "ferry::ipc::acknowledge",
                 ferry::message{"lease "} << which << " is not held: acknowledge each grant once");
    }
    [[noreturn]] static void wrong(char const* what) {
        fail(errc::bad_descriptor, "ferry::ipc::protocol::importer",
             ferry::message{what} << " came from the exporter: it is no ferry server");
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
