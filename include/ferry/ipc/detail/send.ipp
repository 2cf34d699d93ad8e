// ferry: the engine of ipc/send.hpp. The two directions share the code that moves bytes.
#pragma once

#include <ferry/ipc/send.hpp>

#include <ferry/ipc/detail/system.hpp>

#include <climits>
#include <poll.h>
#include <sys/socket.h>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

/// Header of a message, little-endian. The files are sent with its first byte.
struct parcel_head {
    static constexpr std::uint64_t the_magic = 0x314C435052524546;  // "FERRPCL1"
    std::uint64_t magic = the_magic, bytes = 0, files = 0;
};

/// One call of `send` or `receive`. The destructor shuts the connection down if only a part of a message was moved.
class transfer {
   public:
    static constexpr std::size_t max_files = 253;  // SCM_MAX_FD of the kernel

    transfer(char const* api, int socket, transfer_limits const& limits, std::source_location where)
        : api_{api},
          socket_{socket},
          limits_{limits},
          where_{where},
          end_{deadline(std::clamp<std::chrono::milliseconds>(limits.patience, {}, std::chrono::years{1}))} {
        int const domain = option(SO_DOMAIN), type = option(SO_TYPE);
        is_stream_ = type == SOCK_STREAM;
        if (domain != AF_UNIX || (!is_stream_ && type != SOCK_SEQPACKET))
            refuse(errc::argument, "the socket has domain ", domain, " and type ", type,
                   ", expected a Unix socket (1) of type SOCK_STREAM (1) or SOCK_SEQPACKET (5): create it with "
                   "socketpair(AF_UNIX)");
        if (limits.files > max_files)
            refuse(errc::argument, "transfer_limits::files is ", limits.files, ", expected at most ", max_files,
                   ": send several messages");
    }
    transfer(transfer const&) = delete;
    transfer& operator=(transfer const&) = delete;
    ~transfer() {
        if (is_inside_) ::shutdown(socket_, SHUT_RDWR);
    }

    void send(std::span<std::byte const> bytes, std::span<int const> files) {
        check_limits(errc::argument, bytes.size(), files.size());
        if (auto const bad = std::ranges::find_if(files, [](int f) { return f < 0; }); bad != files.end())
            refuse(errc::argument, "file ", bad - files.begin(), " is ", *bad, ": send only open file descriptors");
        parcel_head head{.bytes = bytes.size(), .files = files.size()};
        iovec parts[] = {{&head, sizeof head}, {const_cast<std::byte*>(bytes.data()), bytes.size()}};
        cmsghdr const c{.cmsg_len = CMSG_LEN(files.size_bytes()), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        std::memcpy(control_, &c, sizeof c);
        if (!files.empty()) std::memcpy(control_ + CMSG_LEN(0), files.data(), files.size_bytes());
        move(POLLOUT, parts, files.empty() ? 0 : CMSG_SPACE(files.size_bytes()));
        is_inside_ = false;
    }

    [[nodiscard]] parcel receive() {
        parcel p;
        p.files.reserve(limits_.files);  // no allocation fails while received files have no owner
        files_ = &p.files;
        parcel_head head{.magic = 0};
        iovec parts[] = {{&head, sizeof head}, {}};
        std::uint64_t size = sizeof head;
        if (is_stream_) move(POLLIN, {parts, 1}, sizeof control_);
        else  // MSG_PEEK leaves the datagram in the queue until there is memory for all of it
            size = repeat(POLLIN, "recv",
                          [&] { return ::recv(socket_, &head, sizeof head, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT); });
        if (char found[9] = {}; head.magic != parcel_head::the_magic) {
            std::memcpy(found, &head.magic, 8);
            std::ranges::replace_if(found, found + 8, [](char c) { return c < ' ' || c > '~'; }, '?');
            refuse(errc::bad_descriptor, "the message begins with `", found, "`, expected `FERRPCL1`", sender);
        }
        if (!is_stream_ && (size < sizeof head || size - sizeof head != head.bytes))
            refuse(errc::bad_descriptor, "the datagram has ", size, " bytes, expected ", sizeof head, " + ", head.bytes,
                   sender);
        check_limits(errc::bad_descriptor, head.bytes, head.files);
        p.bytes.resize(static_cast<std::size_t>(head.bytes));
        parts[1] = {p.bytes.data(), p.bytes.size()};
        move(POLLIN, parts, sizeof control_);  // from a stream, only the second part remains
        check_files(head);
        is_inside_ = false;
        return p;
    }

   private:
    static constexpr char const* sender = ": use ferry::ipc::send in the peer";

    template <class... Parts>
    [[noreturn]] FERRY_ALWAYS_INLINE void refuse(errc code, Parts... parts) const {
        fail(code, api_, where_, parts...);
    }
    [[noreturn]] FERRY_COLD void refuse_call(char const* call, int number) const {
        auto const code = code_of(number, errc::argument);
        refuse(code, call, ": ", std::strerror(number),
               number == EMSGSIZE            ? ": raise SO_SNDBUF, or use a socket of type SOCK_STREAM"
               : number == ETOOMANYREFS      ? ": receive the files in transit, or raise `ulimit -n`"
               : number == EBADF             ? ": pass an open socket and open files"
               : code == errc::exporter_gone ? ": the peer has closed the socket: create a new connection"
                                             : fix_of(number, code));
    }
    [[nodiscard]] int option(int name) const {
        int value = 0;
        socklen_t size = sizeof value;
        if (::getsockopt(socket_, SOL_SOCKET, name, &value, &size) != 0) refuse_call("getsockopt", errno);
        return value;
    }
    void check_limits(errc code, std::uint64_t bytes, std::uint64_t files) const {
        if (bytes > limits_.bytes || files > limits_.files)
            refuse(code, "the message has ", bytes, " bytes and ", files, " files, expected at most ", limits_.bytes,
                   " and ", limits_.files, ": split it, or raise transfer_limits");
    }
    void check_files(parcel_head const& head) const {
        if (sockets_ != 0) refuse(errc::bad_descriptor, sockets_, " files are sockets: send only files of memory");
        if (found_ > head.files || (found_ < head.files && !is_cut_))
            refuse(errc::bad_descriptor, "the message states ", head.files, " files, and has ", found_, sender);
        if (is_cut_)
            refuse(errc::out_of_memory, "received ", found_, " of ", head.files,
                   " files: close file descriptors, or raise `ulimit -n`");
    }

    /// Repeats a non-blocking call until it moves bytes, and returns their number. Fails at the deadline, even if the
    /// socket is always ready for another byte.
    template <class Call>
    [[nodiscard]] std::size_t repeat(short event, char const* name, Call call) {
        for (bool was_reset = false;;) {
            auto const left = std::chrono::ceil<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
            if (left.count() <= 0)
                refuse(errc::busy, "the peer has ", event == POLLIN ? "sent " : "received ", moved_,
                       " bytes of a message in ", std::int64_t{limits_.patience.count()},
                       " ms (transfer_limits::patience), not all of it: raise the limit, or create a new connection");
            pollfd p{socket_, event, 0};
            if (::poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left.count(), INT_MAX))) <= 0) continue;
            auto const n = call();
            is_inside_ |= n > 0;
            if (n > 0) return static_cast<std::size_t>(n);
            if (n == 0)
                refuse(errc::exporter_gone, "the peer has closed the socket after ", moved_,
                       " bytes of a message: create a new connection");
            // If the peer closed the socket before it had read all data, the kernel reports that once, before the
            // messages of the peer.
            bool const is_reset = errno == ECONNRESET && event == POLLIN && !std::exchange(was_reset, true);
            if (errno != EAGAIN && errno != EINTR && !is_reset) refuse_call(name, errno);
        }
    }
    /// Sends or receives all parts. Sends the control data with the first byte; may receive it with any byte.
    void move(short event, std::span<iovec> parts, std::size_t control) {
        bool const is_out = event == POLLOUT;
        while (std::ranges::any_of(parts, [](iovec const& part) { return part.iov_len != 0; })) {
            auto n = repeat(event, is_out ? "sendmsg" : "recvmsg", [&] {
                msghdr m{};
                m.msg_iov = parts.data(), m.msg_iovlen = parts.size();
                m.msg_control = control_, m.msg_controllen = control;
                if (is_out) return ::sendmsg(socket_, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
                auto const bytes = ::recvmsg(socket_, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
                if (bytes >= 0) adopt(m);
                return bytes;
            });
            moved_ += n;
            if (is_out) control = 0;
            for (auto& part : parts) {
                auto const done = std::min(n, part.iov_len);
                part = {static_cast<std::byte*>(part.iov_base) + done, part.iov_len - done};
                n -= done;
            }
        }
    }
    /// Takes over the files that a call of recvmsg returned.
    void adopt(msghdr& m) noexcept {
        constexpr int pidfd = 4;  // SCM_PIDFD: also a file, which the application has enabled by SO_PASSPIDFD
        is_cut_ |= (m.msg_flags & MSG_CTRUNC) != 0;
        for (auto* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c))
            for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
                if (c->cmsg_level != SOL_SOCKET || (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != pidfd)) break;
                int number = -1;
                std::memcpy(&number, reinterpret_cast<std::byte*>(c) + at, sizeof number);
                unique_fd file{number};
                if (c->cmsg_type == pidfd) break;
                linger const off{};  // so that closing it does not wait; succeeds for sockets only
                sockets_ += ::setsockopt(number, SOL_SOCKET, SO_LINGER, &off, sizeof off) == 0 ? 1 : 0;
                if (found_++ < limits_.files) files_->push_back(std::move(file));
            }
    }

    char const* api_;
    int socket_;
    transfer_limits limits_;
    std::source_location where_;
    std::chrono::steady_clock::time_point end_;
    bool is_stream_ = false, is_inside_ = false, is_cut_ = false;
    std::uint64_t moved_ = 0, found_ = 0, sockets_ = 0;
    std::vector<unique_fd>* files_ = nullptr;
    // For the maximum number of files, and for the credentials that the application may have enabled (SO_PASSCRED).
    alignas(cmsghdr) std::byte control_[CMSG_SPACE(max_files * sizeof(int)) + 512] = {};
};

}  // namespace detail

FERRY_INLINE void send(int socket, std::span<std::byte const> bytes, std::span<int const> files,
                       transfer_limits const& limits, std::source_location where) {
    detail::transfer{"ferry::ipc::send", socket, limits, where}.send(bytes, files);
}
FERRY_INLINE parcel receive(int socket, transfer_limits const& limits, std::source_location where) {
    return detail::transfer{"ferry::ipc::receive", socket, limits, where}.receive();
}

}  // namespace FERRY_NAMESPACE::ipc
