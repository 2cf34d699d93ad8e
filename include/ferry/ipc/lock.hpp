// ferry: locks on bytes of a segment. The kernel keeps the lock of an open file description (OFD) until its last
// descriptor and its last mapping are gone, in forked children as well, and shows it in every namespace.
#pragma once

#include <ferry/config.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// The byte that the exporter of a share or allocation locks until it closes it.
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

/// Whether another open file description has locked one of the bytes.
[[nodiscard]] inline bool is_locked(int file, off_t at, off_t count = 1) noexcept {
    auto l = lock_of(at, count, F_WRLCK);
    return ::fcntl(file, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/// How many of some bytes other open file descriptions have locked.
[[nodiscard]] inline std::uint64_t count_locked(int file, off_t at, off_t count) noexcept {
    auto l = lock_of(at, count, F_WRLCK);
    if (count <= 0 || ::fcntl(file, F_OFD_GETLK, &l) != 0 || l.l_type == F_UNLCK) return 0;
    // Adjacent bytes of one open file description are one lock, which may begin before and end after these.
    off_t const end = at + count, first = l.l_start > at ? l.l_start : at;
    off_t const last = l.l_len == 0 || l.l_len > end - l.l_start ? end : l.l_start + l.l_len;
    return static_cast<std::uint64_t>(last - first) + count_locked(file, at, first - at) +
           count_locked(file, last, end - last);
}

/// Opens a file again, for an open file description, and thus locks, of its own; read locks alone with O_RDONLY.
[[nodiscard]] inline int reopen(int file, int access = O_RDWR) noexcept {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return ::open(path, access | O_CLOEXEC | O_NONBLOCK);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
