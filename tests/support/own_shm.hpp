// A private /dev/shm, for test programs that link own_shm.cpp and for tests that need a small one.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace support {

inline constexpr char const* own_shm_name = "ferry-tests";  ///< of that of test programs, in /proc/self/mounts

/// Returns whether /dev/shm belongs to this test program, or to the test that has started it.
[[nodiscard]] inline bool has_own_shm() {
    std::ifstream mounts{"/proc/self/mounts"};
    for (std::string line; std::getline(mounts, line);)
        if (line.starts_with(std::string{own_shm_name} + " /dev/shm ")) return true;
    return false;
}

/// Creates a mount namespace; for other users than root, in a user namespace with the same user id, if the system
/// supports it. Call it before the process has threads.
[[nodiscard]] inline bool enter_mount_namespace() {
    if (::unshare(CLONE_NEWNS) == 0) return true;
    auto const same = [](auto id) { return std::to_string(id) + ' ' + std::to_string(id) + " 1"; };
    auto const uids = same(::geteuid()), gids = same(::getegid());
    auto const write = [](char const* file, std::string const& text) {
        int const fd = ::open(file, O_WRONLY | O_CLOEXEC);
        bool const is_written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        if (fd >= 0) ::close(fd);
        return is_written;
    };
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write("/proc/self/uid_map", uids) &&
           write("/proc/self/setgroups", "deny") && write("/proc/self/gid_map", gids);
}

/// Mounts an empty /dev/shm for this process and its children, permanently. `name` appears in /proc/self/mounts.
[[nodiscard]] inline bool mount_own_shm(char const* name, char const* options) {
    return enter_mount_namespace() && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount(name, "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

/// While it exists, no file can be created in /dev/shm, and none is visible. False in a program without a private one.
class hidden_shm {
   public:
    hidden_shm() = default;
    hidden_shm(hidden_shm const&) = delete;
    hidden_shm& operator=(hidden_shm const&) = delete;
    ~hidden_shm() {
        if (is_hidden_) ::umount2("/dev/shm", MNT_DETACH);
    }
    [[nodiscard]] explicit operator bool() const noexcept { return is_hidden_; }

   private:
    bool is_hidden_ = has_own_shm() && ::mount("none", "/dev/shm", "tmpfs", MS_RDONLY, nullptr) == 0;
};

}  // namespace support
