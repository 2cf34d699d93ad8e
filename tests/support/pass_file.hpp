// A file descriptor passed over a Unix socket.
#pragma once

#include <cstring>
#include <sys/socket.h>

namespace support {

/// A message of one byte with a file beside it, or with none for -1.
[[nodiscard]] inline bool send_file(int to, int file) {
    char byte = 'f';
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    if (file < 0) m.msg_controllen = 0;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &file, sizeof file);
    return ::sendmsg(to, &m, MSG_NOSIGNAL) == 1;
}
/// Receives it; -1: no file, or no message.
[[nodiscard]] inline int receive_file(int from) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    if (::recvmsg(from, &m, 0) != 1) return -1;
    cmsghdr const* const c = CMSG_FIRSTHDR(&m);
    int file = -1;
    if (c != nullptr && c->cmsg_type == SCM_RIGHTS) std::memcpy(&file, CMSG_DATA(c), sizeof file);
    return file;
}

}  // namespace support
