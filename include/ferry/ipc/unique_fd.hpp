// ferry: an owning file descriptor.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/config.hpp>

#if !FERRY_HAS_IPC
#error "ferry/ipc needs 64-bit Linux: ask FERRY_HAS_IPC first, and copy through ferry/wire and a channel of your own"
#include <see_the_error_above>
#endif

#include <unistd.h>
#include <utility>

namespace FERRY_NAMESPACE::ipc {

/// Owns a file descriptor, which the destructor closes. Move-only; empty if the descriptor is -1.
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

}  // namespace FERRY_NAMESPACE::ipc
