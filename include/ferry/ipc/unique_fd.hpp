// ferry: an owning file descriptor, and the error codes for errno.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/config.hpp>

#if !FERRY_HAS_IPC
#error "ferry/ipc needs 64-bit Linux: ask FERRY_HAS_IPC first, and copy through ferry/wire and a channel of your own"
#include <see_the_error_above>
#endif

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Owns a file descriptor, which the destructor closes. Move-only; -1: empty.
class unique_fd {
   public:
    unique_fd() = default;
    /// Takes ownership of a file descriptor.
    /// \param fd  file descriptor, or -1
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
    /// Returns the file descriptor and gives up its ownership.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

   private:
    int fd_ = -1;
};

namespace detail {
using ferry::detail::fail;

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

}  // namespace detail

/// Throws errc::permission, exporter_gone, out_of_memory (file descriptors as well), unsupported_platform or argument
/// for a failed system call.
/// \param api     name of the public function
/// \param what    operation that failed, with its object
/// \param number  value of errno
[[noreturn]] FERRY_COLD inline void fail_system(char const* api, char const* what, int number = errno) {
    auto const code = detail::code_of(number, errc::argument);
    char text[128] = {};
    detail::fail(code, api,
                 message{what} << ": " << ::strerror_r(number, text, sizeof text) << detail::fix_of(number, code));
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
