// ferry: errors of system calls, deadlines, and locks on bytes of a file.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/unique_fd.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace FERRY_NAMESPACE::ipc::detail {
using ferry::detail::fail;

/// Throws an error whose text consists of the parts. Inline, so that FERRY_TERSE_ERRORS removes them.
template <class... Parts>
[[noreturn]] FERRY_ALWAYS_INLINE void fail(errc code, char const* api, std::source_location where, Parts... parts) {
    fail(code, api, (message{} << ... << parts), where);
}
template <class... Parts>
[[noreturn]] FERRY_ALWAYS_INLINE void fail(errc code, char const* api, char const* first, Parts... parts) {
    fail(code, api, (message{first} << ... << parts));
}

/// Returns the error code for a value of errno, or `otherwise`.
[[nodiscard]] inline errc code_of(int number, errc otherwise) noexcept {
    switch (number) {
        case EACCES:
        case EPERM:
        case ELOOP: return errc::permission;
        case ENOENT:
        case ECONNREFUSED:
        case ECONNRESET:
        case EPIPE:
        case ENOTCONN: return errc::exporter_gone;
        case EMFILE:
        case ENFILE:
        case ENOMEM:
        case ENOBUFS:
        case ETOOMANYREFS:
        case ENOSPC:
        case EFBIG:
        case EDQUOT: return errc::out_of_memory;
        case ENOSYS:
        case EOPNOTSUPP: return errc::unsupported_platform;
        case EBADF: return errc::argument;
        default: return otherwise;
    }
}

/// Returns the end of the message for a value of errno, which states how to fix the error.
[[nodiscard]] constexpr char const* fix_of(int number, errc code) noexcept {
    if (number == EMFILE || number == ENFILE) return ": close file descriptors, or raise `ulimit -n`";
    switch (code) {
        case errc::permission: return ": run both processes as the same user";
        case errc::exporter_gone: return ": start the exporter, or check the name";
        case errc::out_of_memory: return ": free memory, or raise the limit of the file system or the process";
        case errc::unsupported_platform: return ": use Linux 5.3 or later";
        default: return ": check the arguments and the limits of the process";
    }
}

[[noreturn]] FERRY_COLD inline void fail_system(char const* api, char const* what, int number = errno) {
    auto const code = code_of(number, errc::argument);
    char text[128] = {};
    fail(code, api, message{what} << ": " << ::strerror_r(number, text, sizeof text) << fix_of(number, code));
}

/// Returns the time `limit` from now. Limits above a year count as a year, because larger sums overflow.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline(std::chrono::nanoseconds limit) noexcept {
    return std::chrono::steady_clock::now() +
           std::clamp<std::chrono::nanoseconds>(limit, std::chrono::nanoseconds{0}, std::chrono::years{1});
}

// The kernel keeps the lock of an open file description (OFD) until its last descriptor and its last mapping are gone,
// in forked children as well, and shows it in every namespace.

/// Returns the byte that the exporter locks while a share or allocation is open.
[[nodiscard]] constexpr off_t share_byte(std::uint64_t id) noexcept {
    constexpr auto first = std::uint64_t{1} << 62;  // beyond all data
    return static_cast<off_t>(first | (id & (first - 1)));
}

[[nodiscard]] inline struct flock lock_of(off_t at, off_t count, short type) noexcept {
    struct flock l = {};
    l.l_type = type;
    l.l_whence = SEEK_SET;
    l.l_start = at;
    l.l_len = count;
    return l;
}

/// Locks one byte, or unlocks it. Never waits; false when another open file description has a conflicting lock.
inline bool lock(int file, short type, off_t at) noexcept {
    auto const l = lock_of(at, 1, type);
    return ::fcntl(file, F_OFD_SETLK, &l) == 0;
}

/// Returns whether another open file description has locked one of the bytes.
[[nodiscard]] inline bool is_locked(int file, off_t at, off_t count = 1) noexcept {
    auto l = lock_of(at, count, F_WRLCK);
    return ::fcntl(file, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/// Returns how many of the bytes other open file descriptions have locked.
[[nodiscard]] inline std::uint64_t count_locked(int file, off_t at, off_t count) noexcept {
    auto l = lock_of(at, count, F_WRLCK);
    if (count <= 0 || ::fcntl(file, F_OFD_GETLK, &l) != 0 || l.l_type == F_UNLCK) return 0;
    // Adjacent bytes of one open file description are one lock, which may extend beyond these bytes.
    off_t const end = at + count, first = l.l_start > at ? l.l_start : at;
    off_t const last = l.l_len == 0 || l.l_len > end - l.l_start ? end : l.l_start + l.l_len;
    return static_cast<std::uint64_t>(last - first) + count_locked(file, at, first - at) +
           count_locked(file, last, end - last);
}

/// Opens a file again, to get another open file description, which has its own locks. With O_RDONLY, it can have only
/// read locks.
[[nodiscard]] inline int reopen(int file, int access = O_RDWR) noexcept {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return ::open(path, access | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace FERRY_NAMESPACE::ipc::detail
