// ferry: Unix sockets of type SOCK_SEQPACKET, with credentials and a pidfd of the peer, and file descriptors.
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

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Returns the default directory of sockets: `$XDG_RUNTIME_DIR/ferry`, or `/tmp/ferry-<uid>`. Does not create it.
[[nodiscard]] inline std::string socket_directory() {
    char const* const runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && runtime[0] == '/') return std::string{runtime} + "/ferry";
    return "/tmp/ferry-" + std::to_string(::geteuid());
}
/// Returns the path of a socket.
/// \param name  a path, or a bare name, which denotes a socket in `socket_directory()`
[[nodiscard]] inline std::string socket_path(std::string_view name) {
    return name.find('/') != name.npos ? std::string{name} : socket_directory() + "/" + std::string{name};
}

namespace socket {

/// The process at the other end, as the kernel recorded it at connect(2) (for a client: at listen(2)).
struct peer {
    uid_t uid = 0;
    unique_fd process;  ///< a pidfd: readable once the process has exited
};

/// Creates a Unix socket that preserves message boundaries, closes on exec and does not block. `api` is the function
/// that errors name.
inline unique_fd make(char const* api) {
    unique_fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!fd) fail_system(api, "socket");
    return fd;
}
/// Returns the address of the socket at a path. Errors name `api`; errc::argument: the path has more than 107 bytes.
inline sockaddr_un address(std::string const& path, char const* api) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (path.size() >= sizeof a.sun_path)
        detail::fail(errc::argument, api,
                     message{"a path of "} << std::uint64_t{path.size()}
                                           << " bytes; a socket's has 107 at most: choose a shorter one");
    std::memcpy(a.sun_path, path.data(), path.size());
    return a;
}
/// Returns 0, or errno.
inline int connect(int fd, sockaddr_un const& to) noexcept {
    return ::connect(fd, reinterpret_cast<sockaddr const*>(&to), sizeof to) == 0 ? 0 : errno;
}

/// Fails when a pidfd is not available, because the exit of the process could not be detected.
inline peer peer_of(int fd, char const* api) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) fail_system(api, "the peer's credentials");
    // Linux 6.5 and later: refers to the process itself. Before, only its ID, which may have been reused.
    constexpr int so_peerpidfd = 77;
    int pidfd = -1;
    size = sizeof pidfd;
    // Any other error means that the process has exited (up to Linux 6.15); opening a pidfd by its ID could then refer
    // to another process.
    if (::getsockopt(fd, SOL_SOCKET, so_peerpidfd, &pidfd, &size) != 0 && errno == ENOPROTOOPT)
        pidfd = static_cast<int>(::syscall(SYS_pidfd_open, credentials.pid, 0));
    if (pidfd < 0)
        fail_system(api, "a pidfd of the peer",
                    errno == ESRCH || errno == EINVAL || errno == ENODATA ? ECONNRESET : errno);
    return {credentials.uid, unique_fd{pidfd}};
}

/// Whether all threads of a process have exited, so that it can no longer read memory.
[[nodiscard]] inline bool has_exited(unique_fd const& process) noexcept {
    pollfd p{process.get(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

/// Sends one message, and returns 0, or errno. Never blocks: EAGAIN when the buffer of the socket is full.
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

/// Result of `receive`. The caller owns the file descriptors.
struct received {
    int error = 0;         ///< 0, or errno; EAGAIN when there is no message
    std::size_t size = 0;  ///< of the message; 0 without an error: the peer has closed
    bool whole = true;     ///< false: the message was truncated, or file descriptors were lost
    std::vector<unique_fd> fds;
};
/// Receives one message. Never blocks. Without `want_fds` the kernel closes any file descriptors of the message.
[[nodiscard]] inline received receive(int from, std::span<std::byte> buffer, bool want_fds) {
    received r;
    if (want_fds) r.fds.reserve(protocol::max_fds);  // no allocation fails while received descriptors have no owner
    iovec data{buffer.data(), buffer.size()};
    alignas(cmsghdr) char room[CMSG_SPACE(protocol::max_fds * sizeof(int))];
    msghdr m{};
    ssize_t n = -1;
    int resets = 0;  // reported once when the peer closed before it read all; its messages can still be read
    // Linux reports the end when the peer sends and closes between two checks of one call: that the queue is empty,
    // then that the peer has closed. The next call receives the message (af_unix.c, __unix_dgram_recvmsg).
    int ends = 0;
    do {
        m = {};
        m.msg_iov = &data;
        m.msg_iovlen = 1;
        if (want_fds) m.msg_control = room, m.msg_controllen = sizeof room;
        n = ::recvmsg(from, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while ((n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0))) ||
             (n == 0 && m.msg_controllen == 0 && ends++ == 0));  // mutant: ipc_last_message
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
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
