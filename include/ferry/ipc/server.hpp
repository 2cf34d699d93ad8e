// ferry: an exporter's end of the lifetime protocol over a Unix socket. The rules are in protocol.hpp; here is the I/O.
// length: one object whose parts share a lock.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/exporter.hpp>
#include <ferry/ipc/listener.hpp>
#include <ferry/ipc/message.hpp>
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
#include <memory>  // the thread and who waits for it are left behind in a forked child
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

namespace ferry::inline v0::ipc {

/// Whom a server lets in, and what it bounds.
struct server_options {
    std::vector<uid_t> allow{};  ///< users that may attach; empty: the exporter's own. Root is no exception
    mode_t mode = 0600;  ///< of the socket; 0660 for others of its group, who must be able to reach its directory
    exporter_limits limits{};
};

/// Publishes buffers to other processes of this machine, and knows which of them are read and which are mapped.
///
/// The memory stays the caller's: descriptors are opaque bytes, file descriptors are duplicated. Either one thread
/// calls `poll`, or `start` makes a thread that serves; everything else may be called from any thread. The process that
/// made it serves: a forked child only drops it. Not movable.
class server {
   public:
    using milliseconds = std::chrono::milliseconds;
    /// `close` waits no longer, whatever it is told.
    static constexpr milliseconds longest_close{2000};

    /// Listens at a path, or under a bare name in `socket_directory()`.
    /// \throws error  what listener reports; errc::out_of_memory: no file descriptors
    explicit server(std::string_view name, server_options options = {})
        : allow_{std::move(options.allow)},
          machine_{options.limits},
          listener_{socket_path(name), options.mode},
          pid_{::getpid()} {
        if (allow_.empty()) allow_.push_back(::geteuid());
        wake_ = unique_fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        reserve_ = spare();
        if (!wake_ || !reserve_) fail_system("ferry::ipc::server", "eventfd");
    }
    server(server const&) = delete;
    server& operator=(server const&) = delete;
    /// Closes without waiting for anybody. What `held` names then may still be mapped elsewhere: to free such memory,
    /// call `close` and then `poll` until it is empty.
    ~server() { close(milliseconds{0}); }

    /// Publishes a buffer, in place of what had the name before, and answers at once who waits for it. Never blocks.
    /// \param buffer  a number of the caller's, from 1, that means one allocation for as long as anybody holds it
    /// \param fds     file descriptors that go along with the first grant to each importer: at most 8; duplicated
    /// \return the generation, which grows with every publication
    /// \throws error  errc::argument: the buffer is published or read, a bad name; errc::exporter_gone: closed;
    ///                errc::out_of_memory
    std::uint64_t publish(std::string_view name, std::uint64_t buffer, std::span<std::byte const> descriptor,
                          std::span<int const> fds = {}) {
        constexpr auto api = "ferry::ipc::publish";
        if (fds.size() > protocol::max_fds) ferry::detail::fail(errc::argument, api, "more than 8 file descriptors");
        std::lock_guard const lock{mutex_};
        // While importers hold the buffer its descriptors are here already: a frame of a stream costs no dup and no
        // close.
        auto const known = fds_.find(buffer);
        bool const kept = known != fds_.end() && known->second.size() == fds.size() && machine_.is_held(buffer);
        bool const is_changed = !kept && !machine_.is_published(buffer) && !machine_.is_read(buffer);
        std::vector<unique_fd> other;
        if (is_changed) {
            other.reserve(fds.size());
            for (int const fd : fds) {
                other.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
                if (!other.back()) fail_system(api, "duplicating a file descriptor");
            }
            fds_[buffer].swap(other);
        }
        std::uint64_t generation = 0;
        try {
            generation = machine_.publish(name, buffer, {descriptor.begin(), descriptor.end()},
                                          static_cast<std::uint8_t>(fds.size()), now());
        } catch (...) {  // as it was
            if (is_changed && known == fds_.end()) fds_.erase(buffer);
            else if (is_changed) fds_[buffer].swap(other);
            throw;
        }
        carry_out();
        return generation;
    }
    /// Removes a name. Readers go on. False if there is none.
    bool withdraw(std::string_view name) {
        std::lock_guard const lock{mutex_};
        bool const was = machine_.withdraw(name);
        carry_out();
        return was;
    }
    /// Asks importers to release a buffer that is withdrawn or replaced; `freeable` tells when all have, or are gone.
    void retire(std::uint64_t buffer) {
        std::lock_guard const lock{mutex_};
        machine_.retire(buffer);
        carry_out();
    }

    /// Nobody reads the buffer or can be given it: write it.
    [[nodiscard]] bool is_reusable(std::uint64_t buffer) const {
        std::lock_guard const lock{mutex_};
        return !machine_.is_published(buffer) && !machine_.is_read(buffer);
    }
    /// Nobody maps it, either: free it.
    [[nodiscard]] bool is_freeable(std::uint64_t buffer) const {
        std::lock_guard const lock{mutex_};
        return !machine_.is_published(buffer) && !machine_.is_held(buffer);
    }
    /// Buffers that importers map. After `close`: what must not be freed yet.
    [[nodiscard]] std::vector<std::uint64_t> held() const {
        std::lock_guard const lock{mutex_};
        return machine_.held();
    }
    [[nodiscard]] statistics counts() const {
        std::lock_guard const lock{mutex_};
        return machine_.counts();
    }
    [[nodiscard]] std::string const& path() const noexcept { return listener_.path(); }

    /// Serves for up to `timeout`, or until something happened, and returns what did; with a thread of its own, only
    /// waits for it. The 4096 newest events are kept; who comes later asks is_reusable and is_freeable, which are
    /// always right.
    std::vector<event> poll(milliseconds timeout) {
        std::unique_lock lock{mutex_};
        if (thread_) {
            // Now and the longest of times have no sum.
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
    /// Makes a thread that serves until `close`. Twice is fine. \throws std::system_error  no thread is to be had
    void start() {
        std::lock_guard const lock{mutex_};
        if (thread_ || machine_.is_closed()) return;
        stop_ = false;
        thread_ = std::make_unique<std::thread>([this] {
            for (;;) {
                {
                    std::lock_guard const stopping{mutex_};
                    if (stop_) return;
                }
                try {
                    turn(milliseconds{60'000});
                } catch (std::bad_alloc const&) {  // the next turn finds the same to do
                    std::this_thread::yield();
                }
            }
        });
    }
    /// Ends new attaches at once, asks importers to release, and waits for it: up to `grace`, never beyond 2 s. The
    /// thread that `start` made has ended then. Twice is fine; the second does not wait. Returns whether nobody holds
    /// anything any more; if somebody does, `poll` goes on to learn of releases and exits.
    bool close(milliseconds grace = longest_close) noexcept {
        if (pid_ != ::getpid()) {  // a forked child: the importers are the parent's, and so are the lock's holders
            static_cast<void>(thread_.release());
            static_cast<void>(happened_.release());  // its end would wait for waiters that are not in this process
            return true;
        }
        // mutant: ipc_close_bounded
        auto const until = std::chrono::steady_clock::now() + std::clamp(grace, milliseconds{0}, longest_close);
        try {
            std::unique_lock lock{mutex_};
            bool const first = !machine_.is_closed();
            listener_.close();
            machine_.close();
            carry_out();
            wake();
            // mutant: ipc_close_waits
            while (first && !machine_.is_idle() && std::chrono::steady_clock::now() < until) {
                if (thread_) {
                    happened_->wait_until(lock, until, [&] { return machine_.is_idle(); });
                    continue;
                }
                auto const left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
                lock.unlock();
                turn(left);
                lock.lock();
            }
            stop_ = true;
            wake();
            auto const ending = std::move(thread_);
            lock.unlock();
            if (ending) ending->join();
            lock.lock();
            hang_up_idle();
            return machine_.is_idle();
        } catch (...) {  // no memory to tell the importers: the thread ends all the same
            end_thread();
            return false;
        }
    }

   private:
    void end_thread() noexcept {
        std::unique_lock lock{mutex_};
        stop_ = true;
        wake();
        auto const ending = std::move(thread_);
        lock.unlock();
        if (ending) ending->join();
    }
    struct outgoing {
        std::vector<std::byte> bytes;
        std::uint64_t fds_of;  // 0: none
    };
    struct connection {
        unique_fd socket;
        unique_fd process;
        std::deque<outgoing> outbox;
    };

    static instant now() noexcept {
        return static_cast<instant>(
            std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
    }
    static unique_fd spare() noexcept { return unique_fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }
    void wake() noexcept {
        std::uint64_t const one = 1;
        static_cast<void>(::write(wake_.get(), &one, sizeof one) == sizeof one);
    }

    /// Waits once, and does what there is to do. One thread at a time.
    void turn(milliseconds timeout) {
        std::lock_guard const alone{turn_};
        {
            std::lock_guard const lock{mutex_};
            fds_to_poll_.assign({{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
            ids_.clear();
            for (auto const& [id, c] : connections_) {
                ids_.push_back(id);
                // Who does not read its answers is not listened to.
                // mutant: ipc_back_pressure
                fds_to_poll_.push_back({c.socket.get(), static_cast<short>(c.outbox.empty() ? POLLIN : POLLOUT), 0});
                fds_to_poll_.push_back({c.process.get(), POLLIN, 0});
            }
            // In what poll(2) can count.
            auto const rest = std::min<instant>(machine_.rest(now()), std::numeric_limits<int>::max());
            timeout = std::clamp(timeout, milliseconds{0}, milliseconds{static_cast<milliseconds::rep>(rest)});
        }
        int const ready = ::poll(fds_to_poll_.data(), fds_to_poll_.size(), static_cast<int>(timeout.count()));
        // Beyond a limit of this process that may be lifted: no spinning.
        if (ready < 0 && errno != EINTR) ::poll(nullptr, 0, 10);
        std::lock_guard const lock{mutex_};
        if (ready > 0) {
            std::uint64_t drained = 0;
            if (fds_to_poll_[0].revents != 0)
                static_cast<void>(::read(wake_.get(), &drained, sizeof drained) == sizeof drained);
            for (std::size_t i = 0; i < ids_.size(); ++i) {
                if (fds_to_poll_[2 + 2 * i].revents != 0) talk(ids_[i]);
                if (fds_to_poll_[3 + 2 * i].revents != 0) exited(ids_[i]);  // mutant: ipc_exit_seen
            }
            if (fds_to_poll_[1].revents != 0) admit();
        }
        machine_.tick(now());
        carry_out();
    }
    void admit() {
        if (listener_.get() < 0) return;
        for (int i = 0; i < 16; ++i) {
            unique_fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
            // mutant: ipc_reserve
            if (!fd && (errno == EMFILE || errno == ENFILE)) {  // or the listener stays readable and the loop spins
                reserve_ = unique_fd{};
                fd = unique_fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
                if (fd) turn_away(fd, reason::too_many);
                fd = unique_fd{};
                reserve_ = spare();
                return;
            }
            if (!fd) return;
            try {
                auto who = socket::peer_of(fd.get(), "ferry::ipc::server");
                if (std::ranges::find(allow_, who.uid) == allow_.end()) {  // mutant: ipc_allow_list
                    turn_away(fd, reason::permission);
                } else {
                    // The connection first: whom the machine knows without one would never be seen to leave.
                    auto const id = next_id_++;
                    auto& c = connections_[id] = connection{std::move(fd), std::move(who.process), {}};
                    if (!machine_.joined(id, who.uid == ::geteuid(), now()))
                        turn_away(c.socket, machine_.is_closed() ? reason::closed : reason::too_many);
                }
            } catch (error const&) {  // whose exit cannot be seen is not served
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
        for (int i = 0; i < 16; ++i) {  // the others' turn comes
            auto const r = socket::receive(c.socket.get(), incoming_, false);
            if (r.error == EAGAIN) return;
            if (r.error != 0 || r.size == 0) {
                c.socket = unique_fd{};
                machine_.hung_up(id);
                return carry_out();
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
        auto const found = connections_.find(id);
        if (found == connections_.end()) return;
        found->second.process = unique_fd{};
        machine_.exited(id);
        carry_out();
    }
    /// Who holds nothing need not wait to find out.
    void hang_up_idle() {
        for (auto& [id, c] : connections_)
            if (c.socket && machine_.is_idle(id)) {
                c.socket = unique_fd{};
                machine_.hung_up(id);
            }
        carry_out();
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
            // Of an importer that reads nothing, a buffer is asked back once, however often it is retired.
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
            int const failed = socket::send(
                c.socket.get(), o.bytes,
                fds == fds_.end() ? std::span<unique_fd const>{} : std::span<unique_fd const>{fds->second});
            if (failed == EAGAIN) return;
            if (failed != 0) {  // what it sent before is still read; then comes the end
                ::shutdown(c.socket.get(), SHUT_RDWR);
                c.outbox.clear();
                return;
            }
            c.outbox.pop_front();
        }
    }

    std::vector<uid_t> allow_;
    mutable std::mutex mutex_;  // of all that follows, but for what `turn` alone uses
    protocol::exporter machine_;
    listener listener_;
    pid_t pid_;
    unique_fd wake_, reserve_;
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

}  // namespace ferry::inline v0::ipc
