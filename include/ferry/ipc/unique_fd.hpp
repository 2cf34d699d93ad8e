// ferry: a file descriptor with one owner, and what errno means in ferry's codes.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/config.hpp>

#if !FERRY_HAS_IPC
#error "ferry/ipc needs Linux: ask FERRY_HAS_IPC first, and copy through ferry/wire and a channel of your own"
#endif

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ferry::inline v0::ipc {

/// Closes it in the end. Move-only; −1 is none.
class unique_fd {
   public:
    unique_fd() = default;
    /// Owns `fd` from here on.
    explicit unique_fd(int fd) noexcept : fd_{fd} {}
    unique_fd(unique_fd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
    unique_fd& operator=(unique_fd&& other) noexcept {
        unique_fd old{std::exchange(fd_, std::exchange(other.fd_, -1))};
        return *this;
    }
    ~unique_fd() {
        if (fd_ >= 0) ::close(fd_);
    }
    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
    /// Gives it up: the caller closes it.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

   private:
    int fd_ = -1;
};

/// Reports what a system call left in errno.
/// \throws error  errc::permission, exporter_gone, out_of_memory (file descriptors as well), unsupported_platform, or
///                argument
[[noreturn]] FERRY_COLD inline void fail_system(char const* api, char const* what, int number = errno) {
    errc code = errc::argument;
    char const* cure = "";
    switch (number) {
        case EACCES:
        case EPERM: code = errc::permission, cure = ": ask as the user that exports, or be let in by it"; break;
        case ENOENT:
        case ECONNREFUSED:
        case ECONNRESET:
        case EPIPE:
        case ENOTCONN: code = errc::exporter_gone, cure = ": nobody serves there; start the exporter again"; break;
        case EMFILE:
        case ENFILE: code = errc::out_of_memory, cure = ": close descriptors, or raise `ulimit -n`"; break;
        case ENOMEM:
        case ENOBUFS:
        case ENOSPC: code = errc::out_of_memory; break;
        case ENOSYS:
        case EOPNOTSUPP: code = errc::unsupported_platform, cure = ": Linux 5.3 or later is needed"; break;
        default: break;
    }
    char text[128] = {};
    ferry::detail::fail(code, api, ferry::message{} << what << ": " << ::strerror_r(number, text, sizeof text) << cure);
}

}  // namespace ferry::inline v0::ipc
