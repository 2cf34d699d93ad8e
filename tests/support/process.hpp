// A forked process for a test, connected by a socket pair; ends with the test at the latest.
#pragma once

#include <support/patience.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace support {

/// The child's end of the connection: a byte reports that a step is reached, or lets the other side continue.
class talk {
   public:
    explicit talk(int fd) : fd_{fd} {}
    void say(char c = '.') const {
        if (!reaches(c)) ::_exit(90);
    }
    /// Sends a byte; false when the other side has closed.
    [[nodiscard]] bool reaches(char c) const { return ::send(fd_, &c, 1, MSG_NOSIGNAL) == 1; }
    /// Receives a byte; 0 when the other side has closed, or after the deadline.
    [[nodiscard]] char hear() const {
        pollfd p{fd_, POLLIN, 0};
        char c = 0;
        return ::poll(&p, 1, std::chrono::milliseconds{patience}.count()) == 1 && ::recv(fd_, &c, 1, 0) == 1 ? c : '\0';
    }

   private:
    int fd_;
};

class process {
   public:
    /// Runs `body(talk)`, whose result is the exit status; 99 after an exception.
    template <class Body>
    explicit process(Body body) {
        int both[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            ::close(both[0]);
            int status = 99;
            try {
                status = body(talk{both[1]});
            } catch (std::exception const& e) {
                std::fprintf(stderr, "in the other process: %s\n", e.what());
            }
            ::_exit(status);
        }
        ::close(both[1]);
        fd_ = both[0];
    }
    process(process const&) = delete;
    process& operator=(process const&) = delete;
    ~process() {
        kill(SIGKILL);
        static_cast<void>(wait());
        ::close(fd_);
    }
    void say(char c = '.') const { REQUIRE_MESSAGE(talk{fd_}.reaches(c), "the other process has ended early"); }
    [[nodiscard]] char hear() const { return talk{fd_}.hear(); }
    [[nodiscard]] pid_t pid() const { return pid_; }
    void kill(int signal) const {
        if (!waited_) ::kill(pid_, signal);
    }
    /// Waits for its end; returns the exit status, or the negative signal.
    [[nodiscard]] int wait() {
        if (std::exchange(waited_, true)) return status_;
        int raw = 0;
        while (::waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
        }
        return status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw);
    }

   private:
    pid_t pid_ = -1;
    int fd_ = -1, status_ = 0;
    bool waited_ = false;
};

/// Polls until the condition holds; ends the program after the deadline, and prints `state()`.
template <class F, class... State>
[[nodiscard]] bool soon(F is_so, State... state) {
    until("a condition of support::soon", is_so, state...);
    return true;
}

/// Entries of a folder of /proc/self: `fd`.
[[nodiscard]] inline int count_of(char const* what) {
    int n = 0;
    auto* const folder = ::opendir((std::string{"/proc/self/"} + what).c_str());
    REQUIRE(folder != nullptr);
    while (::readdir(folder) != nullptr) ++n;
    ::closedir(folder);
    return n;
}

}  // namespace support
