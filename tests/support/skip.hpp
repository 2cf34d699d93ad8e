// Skips test cases that this machine or user cannot run; doctest counts them as skipped, and the reason is printed.
// What is possible is tried in a child process: neither the user ID nor a capability shows what a container or a
// namespace forbids.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace support {

/// TEST_CASE("…" * doctest::skip(support::lacks(can, "what is missing"))): asked before any test runs.
[[nodiscard]] inline bool lacks(bool can, char const* why) {
    if (!can) std::printf("SKIPPED: %s\n", why), std::fflush(stdout);
    return !can;
}

/// Returns whether `attempt()` is true in a child process.
template <class F>
[[nodiscard]] bool is_possible(F attempt) {
    pid_t const child = ::fork();
    if (child == 0) ::_exit(attempt() ? 0 : 1);
    int status = 1;
    return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

/// Returns whether this process can neither become another user nor give files away: a user other than root, root
/// without CAP_CHOWN or CAP_SETUID, or a user namespace without other users.
[[nodiscard]] inline bool lacks_root() {
    static bool const can = is_possible([] {
        int const file = ::memfd_create("ferry-test", MFD_CLOEXEC);
        return ::fchown(file, 12345, 12345) == 0 && ::setresuid(65534, 65534, 65534) == 0;
    });
    return lacks(can, "this process cannot become another user, and cannot give files away");
}

/// Returns whether this process cannot enter new pid and mount namespaces: CAP_SYS_ADMIN is missing, or `/` is not a
/// mount point, as after chroot(2).
[[nodiscard]] inline bool lacks_namespaces() {
    static bool const can = is_possible([] {
        return ::unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               is_possible([] { return ::mount("proc", "/proc", "proc", 0, nullptr) == 0; });
    });
    return lacks(can, "this process cannot enter new pid and mount namespaces");
}

/// Returns whether this process cannot enter a time namespace, or not set its clocks.
[[nodiscard]] inline bool lacks_time_namespaces() {
    static bool const can = is_possible([] {
        constexpr int new_time = 0x80;  // CLONE_NEWTIME
        constexpr char offset[] = "boottime 1000000 0\n";
        if (::unshare(new_time) != 0) return false;
        int const file = ::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
        return file >= 0 && ::write(file, offset, sizeof offset - 1) == sizeof offset - 1;
    });
    return lacks(can, "this process cannot enter a time namespace");
}

/// For exhaustive models, in which a sanitizer finds no more than in the other tests of the same code, and takes
/// minutes.
[[nodiscard]] inline bool is_sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr bool has_sanitizer = true;
#elif defined(__has_feature)
    constexpr bool has_sanitizer = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
    constexpr bool has_sanitizer = false;
#endif
    return lacks(!has_sanitizer, "an exhaustive model runs without sanitizers");
}

}  // namespace support
