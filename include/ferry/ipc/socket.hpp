// ferry: Unix sockets that keep messages whole: credentials and exit of the peer, file descriptors beside bytes, safe
// places.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/message.hpp>
#include <ferry/ipc/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <span>
#include <string>  // paths are made here
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <vector>  // messages are owned

namespace ferry::inline v0::ipc {

/// Where exporters of this user meet their importers: `$XDG_RUNTIME_DIR/ferry`, else `/tmp/ferry-<uid>`. Not made here.
[[nodiscard]] inline std::string socket_directory() {
    char const* const runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && runtime[0] == '/') return std::string{runtime} + "/ferry";
    return "/tmp/ferry-" + std::to_string(::geteuid());
}
/// A path as it is; a bare name is a socket in `socket_directory()`.
[[nodiscard]] inline std::string socket_path(std::string_view name) {
    return name.find('/') != name.npos ? std::string{name} : socket_directory() + "/" + std::string{name};
}

namespace socket {

/// Whom the kernel says the peer was when it connected (for a client: when the server began to listen).
struct peer {
    pid_t pid = 0;
    uid_t uid = 0;
    unique_fd process;  ///< a pidfd: readable once the process has exited
};

/// A Unix socket that keeps messages apart, closes on exec and does not block.
/// \throws error  when the system has none to give
inline unique_fd make(char const* api) {
    unique_fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!fd) fail_system(api, "socket");
    return fd;
}
/// The address of a socket at a path.
/// \throws error  errc::argument when the path is too long for one
inline sockaddr_un address(std::string const& path, char const* api) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (path.size() >= sizeof a.sun_path)
        ferry::detail::fail(errc::argument, api,
                            ferry::message{} << "a path of " << std::uint64_t{path.size()}
                                             << " bytes; a socket's has 107 at most: choose a shorter one");
    std::memcpy(a.sun_path, path.data(), path.size());
    return a;
}
/// 0, or errno.
inline int connect(int fd, sockaddr_un const& to) noexcept {
    return ::connect(fd, reinterpret_cast<sockaddr const*>(&to), sizeof to) == 0 ? 0 : errno;
}

/// \throws error  errc::unsupported_platform, out_of_memory, exporter_gone: no pidfd, so that its exit could not be
///                seen
inline peer peer_of(int fd, char const* api) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) fail_system(api, "the peer's credentials");
    peer p{who.pid, who.uid, {}};
    // Linux 6.5: names the process itself; before it, its number, which could have a new owner by now.
    constexpr int so_peerpidfd = 77;
    int pidfd = -1;
    size = sizeof pidfd;
    // Any other failure of it is the answer: that the process has gone (up to Linux 6.15), and asking by number would
    // find who has the number now.
    if (::getsockopt(fd, SOL_SOCKET, so_peerpidfd, &pidfd, &size) != 0 && errno == ENOPROTOOPT)
        pidfd = static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0));
    if (pidfd < 0)
        fail_system(api, "a pidfd of the peer",
                    errno == ESRCH || errno == EINVAL || errno == ENODATA ? ECONNRESET : errno);
    p.process = unique_fd{pidfd};
    return p;
}

/// Whether the process of a pidfd has exited: all its threads, so that it reads nothing any more.
[[nodiscard]] inline bool has_exited(unique_fd const& process) noexcept {
    pollfd p{process.get(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

/// Sends one message, with file descriptors or without. Never blocks. 0, or errno: EAGAIN where the peer does not read.
[[nodiscard]] inline int send(int to, std::span<std::byte const> bytes, std::span<unique_fd const> fds = {}) noexcept {
    iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr m{};
    m.msg_iov = &data;
    m.msg_iovlen = 1;
    alignas(cmsghdr) char room[CMSG_SPACE(protocol::max_fds * sizeof(int))] = {};
    if (!fds.empty()) {
        m.msg_control = room;
        m.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        auto* const head = CMSG_FIRSTHDR(&m);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        for (std::size_t i = 0; i < fds.size(); ++i) {
            int const fd = fds[i].get();
            std::memcpy(CMSG_DATA(head) + i * sizeof fd, &fd, sizeof fd);
        }
    }
    for (;;) {
        if (::sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
        if (errno != EINTR) return errno;
    }
}

/// What came: bytes in `buffer`, and file descriptors, which are the caller's.
struct received {
    int error = 0;         ///< 0, or errno: EAGAIN where there is nothing yet
    std::size_t size = 0;  ///< 0 without an error: the peer has closed
    bool whole = true;     ///< false: a message longer than the buffer, or file descriptors that were lost
    std::vector<unique_fd> fds;
};
/// Receives one message. Never blocks. Without `want_fds`, the kernel closes whatever a peer attaches.
[[nodiscard]] inline received receive(int from, std::span<std::byte> buffer, bool want_fds) {
    received r;
    if (want_fds) r.fds.reserve(protocol::max_fds);  // so that nothing fails between the kernel's fds and their owners
    iovec data{buffer.data(), buffer.size()};
    alignas(cmsghdr) char room[CMSG_SPACE(protocol::max_fds * sizeof(int))];
    msghdr m{};
    ssize_t n = -1;
    int resets = 0;  // a peer that closed without reading all is told of first, once; what it sent is still there
    do {
        m = {};
        m.msg_iov = &data;
        m.msg_iovlen = 1;
        if (want_fds) m.msg_control = room, m.msg_controllen = sizeof room;
        n = ::recvmsg(from, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (n < 0) {
        r.error = errno;
        return r;
    }
    r.size = static_cast<std::size_t>(n);
    r.whole = (m.msg_flags & MSG_TRUNC) == 0 && !(want_fds && (m.msg_flags & MSG_CTRUNC) != 0);
    if (!want_fds) return r;
    for (auto* head = CMSG_FIRSTHDR(&m); head != nullptr; head = CMSG_NXTHDR(&m, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t i = 0; i < (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            r.fds.emplace_back(fd);
        }
    }
    return r;
}

}  // namespace socket
}  // namespace ferry::inline v0::ipc
