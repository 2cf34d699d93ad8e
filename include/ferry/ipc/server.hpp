// ferry: server, the exporter's end of the lifetime protocol over a Unix socket. exporter.hpp has the rules.
// length: one object whose parts share a lock.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/exporter.hpp>
#include <ferry/ipc/listener.hpp>
#include <ferry/ipc/message.hpp>
#include <ferry/ipc/process.hpp>
#include <ferry/ipc/socket.hpp>
#include <ferry/ipc/unique_fd.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>  // a forked child abandons the thread and the condition variable
#include <mutex>   // several threads publish and ask
#include <new>
#include <poll.h>
#include <span>
#include <string>  // paths and names
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>  // lists of buffers and events

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Options of a server: the permitted users, and limits.
struct server_options {
    std::vector<uid_t> allow{};  ///< user IDs that may attach; empty: that of this process. Applies to root as well
    mode_t mode =
        0600;  ///< of the socket; 0660 admits the users of its group that `allow` names and the directory admits
    exporter_limits limits{};
};

/// Publishes buffers to other processes of this machine, and tracks which buffers they read and map.
///
/// The caller owns the memory: descriptors are opaque bytes, file descriptors are duplicated. Either one thread calls
/// `poll`, or `start` creates a thread that serves; all other functions may be called from any thread. Only the process
/// that made the server serves; in a forked child it can only be destroyed. Not movable.
class server {
   public:
    using milliseconds = std::chrono::milliseconds;
    /// Longest wait of `close`.
    static constexpr milliseconds longest_close{2000};

    /// Creates the directory with mode 0700 if it is missing, removes the socket of an exporter that was killed, and
    /// listens.
    /// \param name     path of the socket, or a bare name in `socket_directory()`
    /// \param options  permitted users, mode of the socket, and limits
    /// \throws error  errc::permission: the directory belongs to another user, others may write to it, or another
    ///                process keeps it locked for 2 s; errc::argument: a path that is too long or in use, or a mode
    ///                that admits other users; errc::out_of_memory: no file descriptors
    explicit server(std::string_view name, server_options options = {})
        : allow_{std::move(options.allow)}, machine_{options.limits}, listener_{socket_path(name), options.mode} {
        if (allow_.empty()) allow_.push_back(::geteuid());
        if (!wake_ || !reserve_) fail_system("ferry::ipc::server", "eventfd");
    }
    server(server const&) = delete;
    server& operator=(server const&) = delete;
    /// Closes without waiting. Buffers that `held` lists may still be mapped by importers: before freeing such memory,
    /// call `close`, and then `poll` until `held` is empty.
    ~server() { close(milliseconds{0}); }

    /// Publishes a buffer under a name, replacing the previous publication, and replies to the attaches that wait for
    /// it. Never blocks.
    /// \param name        1 to 200 bytes without control characters
    /// \param buffer      number of the buffer, from 1; means the same allocation while an importer holds it
    /// \param descriptor  at most 60000 bytes for importers
    /// \param fds         at most 8 open file descriptors, sent with the first grant to each importer; duplicated
    /// \return            generation, which increases with every publication
    /// \throws error  errc::argument: the buffer is published or read, or an argument is out of bounds;
    ///                errc::exporter_gone: closed; errc::out_of_memory
    std::uint64_t publish(std::string_view name, std::uint64_t buffer, std::span<std::byte const> descriptor,
                          std::span<int const> fds = {}) {
        constexpr auto api = "ferry::ipc::publish";
        if (fds.size() > protocol::max_fds)
            detail::fail(errc::argument, api,
                         message{} << std::uint64_t{fds.size()} << " file descriptors, and a grant has "
                                   << int{protocol::max_fds} << ": compact a column first, so that it is one memory");
        if (auto const none = std::ranges::find_if(fds, [](int fd) { return fd < 0; }); none != fds.end())
            detail::fail(errc::argument, api,
                         message{"fds["} << std::int64_t{none - fds.begin()} << "] is " << *none
                                         << ", and only open file descriptors are sent: for a memory that needs none, "
                                            "pass that of another memory, which importers ignore");
        std::lock_guard const lock{mutex_};
        // While importers hold the buffer its file descriptors are kept, so that a frame of a stream needs no dup and
        // no close.
        auto const known = fds_.find(buffer);
        bool const kept = known != fds_.end() && known->second.size() == fds.size() && machine_.is_held(buffer);
        std::map<std::uint64_t, std::vector<unique_fd>> fresh;  // no allocation fails after the publication
        if (!kept) {
            auto& copies = fresh[buffer];
            copies.reserve(fds.size());
            for (int const fd : fds) {
                copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
                if (!copies.back()) fail_system(api, "duplicating a file descriptor");
            }
        }
        auto const generation = machine_.publish(name, buffer, {descriptor.begin(), descriptor.end()},
                                                 static_cast<std::uint8_t>(fds.size()), now());
        if (!kept) fds_.erase(buffer);
        fds_.merge(fresh);
        carry_out();
        return generation;
    }
    /// Removes a name. Importers may continue to read its buffer.
    /// \param name  the name
    /// \return      false when nothing is published under it
    bool withdraw(std::string_view name) {
        std::lock_guard const lock{mutex_};
        bool const was = machine_.withdraw(name);
        carry_out();
        return was;
    }
    /// Asks importers to release a buffer that was withdrawn or replaced. The event `freeable` follows when all have
    /// released it or ended.
    /// \param buffer  number of the buffer
    void retire(std::uint64_t buffer) {
        std::lock_guard const lock{mutex_};
        machine_.retire(buffer);
        carry_out();
    }

    /// Returns whether the buffer may be written: it is not published, and no importer reads it.
    /// \param buffer  number of the buffer
    [[nodiscard]] bool is_reusable(std::uint64_t buffer) const {
        std::lock_guard const lock{mutex_};
        return !machine_.is_published(buffer) && !machine_.is_read(buffer);
    }
    /// Returns whether the buffer may be freed: it is not published, and no importer maps it.
    /// \param buffer  number of the buffer
    [[nodiscard]] bool is_freeable(std::uint64_t buffer) const {
        std::lock_guard const lock{mutex_};
        return !machine_.is_published(buffer) && !machine_.is_held(buffer);
    }
    /// Returns the buffers that importers map. After `close`, these must not be freed yet.
    [[nodiscard]] std::vector<std::uint64_t> held() const {
        std::lock_guard const lock{mutex_};
        return machine_.held();
    }
    /// Returns the statistics of this server.
    [[nodiscard]] statistics counts() const {
        std::lock_guard const lock{mutex_};
        return machine_.counts();
    }
    /// Returns the path of the socket.
    [[nodiscard]] std::string const& path() const noexcept { return listener_.path(); }

    /// Serves until an event occurs or the timeout ends; after `start`, waits without serving.
    /// \param timeout  longest wait
    /// \return         events since the last call, at most the 4096 newest. When older ones were discarded,
    ///                 `is_reusable` and `is_freeable` give the current state.
    std::vector<event> poll(milliseconds timeout) {
        std::unique_lock lock{mutex_};
        if (thread_) {
            // Bounded: the sum of the current time and the maximum would overflow.
            happened_->wait_for(lock, std::min(timeout, milliseconds{std::chrono::years{1}}),
                                [&] { return !events_.empty(); });
        } else if (events_.empty()) {
            lock.unlock();
            turn(timeout);
            lock.lock();
        }
        std::vector<event> out{std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end())};
        events_.clear();
        return out;
    }
    /// Creates a thread that serves until `close`. No effect when there is one, or on a closed server.
    /// \throws std::system_error  the thread cannot be created
    void start() {
        std::lock_guard const lock{mutex_};
        if (thread_ || machine_.is_closed()) return;
        stop_ = false;
        thread_ = std::make_unique<std::thread>([this] {
            for (std::unique_lock stopping{mutex_}; !stop_; stopping.lock()) {
                stopping.unlock();
                try {
                    turn(milliseconds{60'000});
                } catch (std::bad_alloc const&) {  // the next turn repeats what is left
                    std::this_thread::yield();
                }
            }
        });
    }
    /// Refuses attaches, asks importers to release all buffers, and waits until they have. Ends the thread of `start`.
    /// A second call does not wait.
    /// \param grace  longest wait, at most 2 s
    /// \return       whether no importer holds a buffer; otherwise `poll` continues to process releases and exits
    bool close(milliseconds grace = longest_close) noexcept {
        if (!process_.is_here()) {  // a forked child: the importers and the holders of the lock are the parent's
            static_cast<void>(thread_.release());
            static_cast<void>(happened_.release());  // its destructor would wait for threads of the parent
            return true;
        }
        // mutant: ipc_close_bounded
        auto const until = clock::now() + std::clamp(grace, milliseconds{0}, longest_close);
        try {
            std::unique_lock lock{mutex_};
            bool const first = !machine_.is_closed();
            listener_.close();
            machine_.close();
            carry_out();
            wake();
            // mutant: ipc_close_waits
            while (first && !machine_.is_idle() && clock::now() < until) {
                if (thread_) {
                    happened_->wait_until(lock, until, [&] { return machine_.is_idle(); });
                    continue;
                }
                lock.unlock();
                turn(std::chrono::ceil<milliseconds>(until - clock::now()));
                lock.lock();
            }
            end_thread(lock);
            machine_.hang_up_idle();
            carry_out();
            return machine_.is_idle();
        } catch (...) {  // no memory for the messages: the thread ends nevertheless
            std::unique_lock lock{mutex_};
            end_thread(lock);
            return false;
        }
    }

   private:
    using clock = std::chrono::steady_clock;
    struct outgoing {
        std::vector<std::byte> bytes;
        std::uint64_t fds_of;  // 0: none
    };
    struct connection {
        unique_fd socket, process;
        std::deque<outgoing> outbox{};
    };

    void end_thread(std::unique_lock<std::mutex>& lock) noexcept {
        stop_ = true;
        wake();
        auto const ending = std::move(thread_);
        lock.unlock();
        if (ending) ending->join();
        lock.lock();
    }
    static instant now() noexcept {
        return static_cast<instant>(std::chrono::duration_cast<milliseconds>(clock::now().time_since_epoch()).count());
    }
    static unique_fd spare() noexcept { return unique_fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }
    void wake() noexcept { ::eventfd_write(wake_.get(), 1); }

    /// Waits once, and processes what is ready. One thread at a time.
    void turn(milliseconds timeout) {
        std::lock_guard const alone{turn_};
        {
            std::lock_guard const lock{mutex_};
            fds_to_poll_.assign({{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
            ids_.clear();
            for (auto const& [id, c] : connections_) {
                ids_.push_back(id);
                // No request is read from a client while its replies are pending.
                // mutant: ipc_back_pressure
                fds_to_poll_.push_back({c.socket.get(), static_cast<short>(c.outbox.empty() ? POLLIN : POLLOUT), 0});
                fds_to_poll_.push_back({c.process.get(), POLLIN, 0});
            }
            // At most the range of poll(2).
            auto const rest = std::min<instant>(machine_.rest(now()), std::numeric_limits<int>::max());
            timeout = std::clamp(timeout, milliseconds{0}, milliseconds{static_cast<milliseconds::rep>(rest)});
        }
        int const ready = ::poll(fds_to_poll_.data(), fds_to_poll_.size(), static_cast<int>(timeout.count()));
        // poll(2) failed, for example at a limit of this process: wait, so as not to spin.
        if (ready < 0 && errno != EINTR) ::poll(nullptr, 0, 10);
        std::lock_guard const lock{mutex_};
        if (ready > 0) {
            eventfd_t drained = 0;
            if (fds_to_poll_[0].revents != 0) ::eventfd_read(wake_.get(), &drained);
            for (std::size_t i = 0; i < ids_.size(); ++i) {
                if (fds_to_poll_[2 + 2 * i].revents != 0) talk(ids_[i]);
                if (fds_to_poll_[3 + 2 * i].revents != 0) exited(ids_[i]);  // mutant: ipc_exit_seen
            }
            if (fds_to_poll_[1].revents != 0) admit();
        }
        machine_.tick(now());
        carry_out();
    }
    unique_fd accept() const noexcept {
        return unique_fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    }
    void admit() {
        for (int i = 0; i < 16; ++i) {
            auto fd = accept();
            // mutant: ipc_reserve
            if (!fd && (errno == EMFILE || errno == ENFILE)) {  // or the listener stays readable and the loop spins
                reserve_ = unique_fd{};
                if (auto const late = accept()) turn_away(late, reason::too_many);
                reserve_ = spare();
                return;
            }
            if (!fd) return;
            try {
                auto peer = socket::peer_of(fd.get(), "ferry::ipc::server");
                if (std::ranges::find(allow_, peer.uid) == allow_.end()) {  // mutant: ipc_allow_list
                    turn_away(fd, reason::permission);
                } else {
                    // The connection first: without one, the end of an importer would not be detected.
                    auto const id = next_id_++;
                    auto& c = connections_[id] = connection{std::move(fd), std::move(peer.process)};
                    if (!machine_.joined(id, peer.uid == ::geteuid(), now()))
                        turn_away(c.socket, machine_.is_closed() ? reason::closed : reason::too_many);
                }
            } catch (error const&) {  // a process whose exit cannot be detected is not served
                turn_away(fd, reason::too_many);
            }
        }
    }
    static void turn_away(unique_fd const& fd, reason why) {
        static_cast<void>(socket::send(fd.get(), protocol::to_bytes(protocol::refused{0, why})));
    }
    void talk(std::uint64_t id) {
        auto const found = connections_.find(id);
        if (found == connections_.end() || !found->second.socket) return;
        auto& c = found->second;
        flush(c);
        for (int i = 0; i < 16; ++i) {  // bounded, so that other clients are served
            auto const r = socket::receive(c.socket.get(), incoming_, false);
            if (r.error == EAGAIN) return;
            if (r.error != 0 || r.size == 0) {
                c.socket = unique_fd{};
                return machine_.hung_up(id);
            }
            try {
                if (!r.whole) machine_.violated(id);
                else machine_.received(id, protocol::from_bytes(std::span{incoming_}.first(r.size)), now());
            } catch (error const&) {
                machine_.violated(id);
            }
            carry_out();
            if (!connections_.contains(id) || !c.socket) return;
        }
    }
    void exited(std::uint64_t id) {
        if (auto const found = connections_.find(id); found != connections_.end()) found->second.process = unique_fd{};
        machine_.exited(id);
    }
    void carry_out() {
        for (auto& o : machine_.take_orders()) {
            auto const found = connections_.find(o.client);
            if (found == connections_.end() || !found->second.socket) continue;
            auto& c = found->second;
            if (!o.say) {
                c.socket = unique_fd{};
                continue;
            }
            auto const* g = std::get_if<protocol::granted>(&*o.say);
            auto bytes = protocol::to_bytes(*o.say);
            // One pending request per buffer, however often it is retired.
            if (std::holds_alternative<protocol::withdrawn>(*o.say) &&
                std::ranges::any_of(c.outbox, [&](auto const& waiting) { return waiting.bytes == bytes; }))
                continue;
            c.outbox.push_back({std::move(bytes), g != nullptr && g->fds != 0 ? g->buffer : 0});
            flush(c);
            if (!c.outbox.empty()) wake();
        }
        auto news = machine_.take_events();
        for (auto& e : news) {
            if (e.kind == event::what::freeable && !machine_.is_published(e.buffer)) fds_.erase(e.buffer);
            events_.push_back(std::move(e));
            if (events_.size() > 4096) events_.pop_front();
        }
        std::erase_if(connections_, [&](auto const& c) { return !machine_.knows(c.first); });
        if (!news.empty()) happened_->notify_all();
    }
    void flush(connection& c) {
        while (!c.outbox.empty()) {
            auto const& o = c.outbox.front();
            auto const fds = fds_.find(o.fds_of);
            int const failed =
                socket::send(c.socket.get(), o.bytes, fds == fds_.end() ? std::span<unique_fd const>{} : fds->second);
            if (failed == EAGAIN) return;
            if (failed != 0) {  // messages that it has sent are still read
                ::shutdown(c.socket.get(), SHUT_RDWR);
                c.outbox.clear();
                return;
            }
            c.outbox.pop_front();
        }
    }

    std::vector<uid_t> allow_;
    mutable std::mutex mutex_;  // guards all members below, except those that only `turn` uses
    protocol::exporter machine_;
    listener listener_;
    process_mark process_ = process_mark::here();
    unique_fd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, reserve_ = spare();
    std::map<std::uint64_t, connection> connections_;
    std::map<std::uint64_t, std::vector<unique_fd>> fds_;
    std::deque<event> events_;
    std::uint64_t next_id_ = 1;
    std::unique_ptr<std::condition_variable> happened_ = std::make_unique<std::condition_variable>();
    std::unique_ptr<std::thread> thread_;
    bool stop_ = false;

    std::mutex turn_;
    std::vector<pollfd> fds_to_poll_;
    std::vector<std::uint64_t> ids_;
    std::vector<std::byte> incoming_ = std::vector<std::byte>(protocol::max_message);
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
