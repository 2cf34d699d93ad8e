// ferry: client, the importer's end of the lifetime protocol over a Unix socket. exporter.hpp has the rules.
// length: one class, whose functions share the connection.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/importer.hpp>
#include <ferry/ipc/message.hpp>
#include <ferry/ipc/process.hpp>
#include <ferry/ipc/socket.hpp>
#include <ferry/ipc/unique_fd.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <poll.h>
#include <span>
#include <string>  // paths and names
#include <string_view>
#include <utility>
#include <vector>  // descriptors are owned

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Options of a client.
struct client_options {
    std::vector<uid_t> exporters{};           ///< user IDs of trusted servers; empty: that of this process
    std::chrono::milliseconds timeout{2000};  ///< time without a reply after which calls fail
};

/// A lease on a published buffer, as `client::attach` returns it.
struct grant {
    std::uint64_t lease = 0;
    std::uint64_t buffer = 0;      ///< number of the buffer: the key for its mapping
    std::uint64_t generation = 0;  ///< of the publication; `after` of the next request
    std::chrono::milliseconds lease_time{};
    bool fresh = true;  ///< false: the importer already holds the buffer, and may have a mapping of it
    std::vector<std::byte> descriptor;
    std::vector<unique_fd> fds;  ///< of the buffer, duplicated: the client keeps them until `release`
};

/// Parameters of an attach request.
struct wish {
    std::uint64_t after = 0;                ///< only publications with a higher generation
    std::chrono::milliseconds patience{0};  ///< time to wait for a publication
    std::uint64_t finished = 0;             ///< lease to acknowledge with the same message; 0: none
};

/// A connection to a server. Used by one thread at a time. Only the process that made it sends messages; in a forked
/// child it can only be destroyed. Not movable.
class client {
   public:
    using milliseconds = std::chrono::milliseconds;

    /// Connects to a server.
    /// \param name     path of a socket, or a bare name in `socket_directory()`
    /// \param options  trusted users, and the timeout
    /// \throws error  errc::exporter_gone: no server listens there; errc::permission: the socket is not accessible, or
    ///                its server runs as a user that is not trusted
    explicit client(std::string_view name, client_options options = {})
        : timeout_{std::clamp(options.timeout, milliseconds{0}, milliseconds{std::chrono::years{1}})},
          socket_{socket::make(api)} {
        auto const to = socket::address(socket_path(name), api);
        auto const until = clock::now() + timeout_;
        int failed = 0;
        while ((failed = socket::connect(socket_.get(), to)) == EAGAIN && clock::now() < until)
            ::poll(nullptr, 0, 1);  // the server's backlog is full, and no event signals room in it
        if (failed != 0) fail_system(api, to.sun_path, failed == EAGAIN ? ECONNREFUSED : failed);
        auto who = socket::peer_of(socket_.get(), api);
        if (options.exporters.empty()) options.exporters.push_back(::geteuid());
        if (std::ranges::find(options.exporters, who.uid) == options.exporters.end())  // mutant: ipc_exporter_user
            detail::fail(errc::permission, api,
                         message{to.sun_path} << " is served by user " << std::uint64_t{who.uid}
                                              << ": name it in client_options::exporters to trust it");
        exporter_ = std::move(who.process);
    }
    client(client const&) = delete;
    client& operator=(client const&) = delete;
    ~client() { close(); }

    /// Requests a lease on the newest publication of a name.
    ///
    /// The buffer may be read until `acknowledge` or `release`. Blocks for up to the patience and the timeout.
    ///
    /// \param name  name of the publication
    /// \param w     generation, patience, and a lease to acknowledge
    /// \return      the lease; empty when nothing, or nothing newer, was published in time
    /// \throws error  errc::exporter_gone: the server is closed, has exited or does not reply; errc::permission;
    ///                errc::argument: too many leases, `finished` is not held, or the name has more than 200 bytes;
    ///                errc::out_of_memory: file descriptors of the reply could not be received;
    ///                errc::bad_descriptor: the reply is not a message of this protocol
    [[nodiscard]] std::optional<grant> attach(std::string_view name, wish w = {}) {
        auto const patience =
            static_cast<std::uint32_t>(std::clamp<milliseconds::rep>(w.patience.count(), 0, 3600'000));
        auto g = ask<protocol::granted>(protocol::attach{0, w.after, w.finished, patience, checked(name)},
                                        milliseconds{patience});
        if (!g) return {};
        auto fds = std::exchange(fds_, {});
        if (fds.size() != g->fds) {  // mutant: ipc_fds_lost
            release(g->buffer);
            detail::fail(errc::out_of_memory, api,
                         "file descriptors were lost on the way: close some, or raise `ulimit -n`");
        }
        if (g->fresh) files_[g->buffer] = std::exchange(fds, {});
        for (auto const& file : files_[g->buffer]) {  // mutant: ipc_files_kept
            fds.emplace_back(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
            if (fds.back()) continue;
            int const number = errno;
            acknowledge(g->lease);
            fail_system(api, "duplicating a file descriptor", number);
        }
        return grant{
            g->lease,      g->buffer, g->generation, milliseconds{g->lease_ms}, g->fresh, std::move(g->descriptor),
            std::move(fds)};
    }
    /// Ends a lease after the buffer has been read. The mapping may be kept. Does not block.
    /// \param lease  number of a held lease
    /// \param done   at most 256 bytes for the exporter, such as the handle of an event
    /// \throws error  errc::argument: the lease is not held
    void acknowledge(std::uint64_t lease, std::span<std::byte const> done = {}) {
        machine_.finish(lease, {done.begin(), done.end()});
        send();
    }
    /// Reports that the buffer is unmapped, and ends its leases. Does not block.
    /// \param buffer  number of the buffer; no effect when it is not held
    void release(std::uint64_t buffer) {
        files_.erase(buffer);
        machine_.give_up(buffer);
        send();
    }
    /// Returns the held buffers that the exporter asked this client to release. Does not block.
    [[nodiscard]] std::vector<std::uint64_t> withdrawn() {
        listen();
        return machine_.withdrawn_buffers();
    }
    /// Returns whether the exporter is closing; release all buffers then. Does not block.
    [[nodiscard]] bool is_closing() {
        listen();
        return machine_.is_closing();
    }
    /// Returns whether the connection is closed or the exporter's process has exited. Does not block.
    [[nodiscard]] bool is_gone() {
        listen();
        return !socket_ || socket::has_exited(exporter_);
    }
    /// Renews all leases. Blocks until the reply.
    /// \throws error  errors of `attach`
    void ping() { expect<protocol::done>(protocol::ping{}); }
    /// Returns all publications in the order of their names. Blocks until the reply.
    /// \throws error  errors of `attach`
    [[nodiscard]] std::vector<entry> list() {
        std::vector<entry> all;
        for (bool more = true; more;) {
            auto part = expect<protocol::listing>(protocol::list{0, all.empty() ? "" : all.back().name});
            more = part.more && !part.entries.empty();
            std::ranges::move(part.entries, std::back_inserter(all));
        }
        return all;
    }
    /// Withdraws a name. Only the user that runs the server may.
    /// \param name  name of the publication
    /// \return      false when nothing is published under it
    /// \throws error  errors of `attach`
    bool drop(std::string_view name) { return ask<protocol::done>(protocol::drop{0, checked(name)}).has_value(); }
    /// Returns the statistics of the server. Blocks until the reply.
    /// \throws error  errors of `attach`
    [[nodiscard]] statistics counts() { return expect<protocol::counted>(protocol::count{}).counts; }
    /// Releases all buffers and closes the connection; unmap them first. Waits up to 2 s when the socket's buffer is
    /// full. No effect on a closed client.
    void close() noexcept {
        if (!socket_) return;
        if (process_.is_here()) {  // mutant: ipc_fork_close
            try {
                machine_.give_up_all();
                send(clock::now() + std::min(timeout_, milliseconds{2000}));
            } catch (...) {  // the exporter frees the rest when this process exits
            }
        }
        socket_ = unique_fd{};
        files_.clear();
    }

   private:
    using clock = std::chrono::steady_clock;
    static constexpr auto api = "ferry::ipc::client";

    /// Longer names do not fit in a message: the server would treat it as malformed and close the connection.
    static std::string checked(std::string_view name) {
        if (name.size() > protocol::max_name)
            detail::fail(errc::argument, api,
                         message{"a name of "} << std::uint64_t{name.size()}
                                               << " bytes; 200 are the most: nothing is published under it");
        return std::string{name};
    }
    [[noreturn]] static void refuse(reason why) {
        if (why == reason::closed) detail::fail(errc::exporter_gone, api, "the exporter has closed");
        if (why == reason::permission)
            detail::fail(errc::permission, api,
                         "the exporter does not let this user: ask it to name the user in server_options::allow");
        if (why == reason::too_many)
            detail::fail(errc::argument, api,
                         "beyond the exporter's limits: acknowledge leases, close clients, or raise exporter_limits");
        detail::fail(errc::bad_descriptor, api,
                     "the exporter refused the message: it uses another version of the protocol");
    }

    /// Sends the queued messages. Waits until `until` for room in the socket; what is not sent stays queued.
    void send(clock::time_point until = {}) {
        for (auto& m : machine_.take_orders()) outbox_.push_back(protocol::to_bytes(m));
        while (!outbox_.empty() && socket_ && process_.is_here()) {
            int const failed = socket::send(socket_.get(), outbox_.front());
            if (failed == EAGAIN) {
                if (!wait(POLLOUT, until)) return;
                continue;
            }
            if (failed == ENOBUFS || failed == ENOMEM) return;  // stays queued: the connection is intact
            if (failed != 0) outbox_.clear();  // closed; `take` reads the messages that were sent before
            else outbox_.pop_front();
        }
    }
    /// Waits for an event on the socket. False when the time is over or the exporter's process has exited.
    bool wait(short what, clock::time_point until) {
        auto const left = std::chrono::ceil<milliseconds>(until - clock::now()).count();
        if (left <= 0) return false;
        pollfd both[] = {{socket_.get(), what, 0}, {exporter_.get(), POLLIN, 0}};
        ::poll(both, 2, static_cast<int>(std::min<milliseconds::rep>(left, 3600'000)));
        return both[0].revents != 0 || both[1].revents == 0;  // mutant: ipc_exporter_exit
    }
    /// Receives one message and sets `answer_` when it is the reply to a request. False when there is none.
    bool take() {
        if (!socket_ || !process_.is_here()) return false;
        auto r = socket::receive(socket_.get(), incoming_, true);
        if (r.error == EAGAIN) return false;
        if (r.error != 0 || r.size == 0) {
            socket_ = unique_fd{};
            return false;
        }
        try {
            auto m = protocol::from_bytes(std::span{incoming_}.first(r.size));
            auto const* g = std::get_if<protocol::granted>(&m);
            std::size_t const expected = g != nullptr ? g->fds : 0U;
            if (r.fds.size() > expected || (r.whole && r.fds.size() != expected))  // mutant: ipc_fds_said
                detail::fail(errc::bad_descriptor, api, "a message came with other file descriptors than it says");
            answer_ = machine_.received(std::move(m));
            if (answer_ && g != nullptr) fds_ = std::move(r.fds);
        } catch (error const&) {
            socket_ = unique_fd{};  // no further messages are read from such a peer
            throw;
        }
        send();
        return true;
    }
    void listen() {
        while (!answer_ && take()) {
        }
    }
    protocol::message answered(std::uint64_t request, milliseconds patience) {
        if (!process_.is_here()) detail::fail(errc::argument, api, "a forked child asks: make a client of its own");
        auto const until = clock::now() + patience + timeout_;
        struct at_end {  // a reply that comes after a failure is given back, and answers no other request
            protocol::importer& machine;
            std::uint64_t request;
            ~at_end() { machine.forget(request); }
        } const forgets{machine_, request};
        answer_.reset();
        fds_.clear();
        send(until);
        do listen();
        while (!answer_ && socket_ && wait(POLLIN, until));
        listen();  // to what the exporter sent before it exited
        if (auto answer = std::exchange(answer_, {})) return *std::move(answer);
        if (auto const why = machine_.refused_because()) refuse(*why);
        detail::fail(errc::exporter_gone, api,
                     !socket_                        ? "the exporter hung up"
                     : socket::has_exited(exporter_) ? "the exporter's process has exited"
                                                     : "the exporter does not answer: it is stopped, or busy");
    }
    /// The reply to a request. Empty when nothing is published under its name.
    template <class Answer>
    std::optional<Answer> ask(auto request, milliseconds patience = {}) {
        auto answer = answered(machine_.ask(std::move(request)), patience);
        if (auto* expected = std::get_if<Answer>(&answer)) return std::move(*expected);
        auto const why = std::get<protocol::refused>(answer).why;
        if (why != reason::not_published) refuse(why);
        return {};
    }
    template <class Answer>
    Answer expect(auto request) {
        auto answer = ask<Answer>(std::move(request));
        if (!answer) refuse(reason::not_published);
        return *std::move(answer);
    }

    milliseconds timeout_;
    unique_fd socket_, exporter_;
    process_mark process_ = process_mark::here();
    protocol::importer machine_;
    std::optional<protocol::message> answer_;
    std::deque<std::vector<std::byte>> outbox_;
    std::vector<unique_fd> fds_;                             // of the last grant
    std::map<std::uint64_t, std::vector<unique_fd>> files_;  // of held buffers
    std::vector<std::byte> incoming_ = std::vector<std::byte>(protocol::max_message);
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
