// Another process of a test, and the communication with it.
#pragma once

#include <ferry/wire/binary.hpp>

#include <support/patience.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

namespace support {

/// The connection of the two processes: descriptors and single bytes.
class line {
   public:
    line(int in, int out) : in_{in}, out_{out} {}
    void tell(char c) const {
        if (write(out_, &c, 1) != 1) std::abort();
    }
    /// Waits for that byte.
    void hear(char expected) const {
        char c = 0;
        if (read(in_, &c, 1) != 1 || c != expected) std::abort();
    }
    void send(ferry::wire::descriptor const& d) const {
        auto const bytes = ferry::wire::to_bytes(d);
        auto const n = static_cast<std::uint32_t>(bytes.size());
        if (write(out_, &n, sizeof n) != sizeof n || write(out_, bytes.data(), n) != static_cast<ssize_t>(n))
            std::abort();
    }
    [[nodiscard]] ferry::wire::descriptor receive() const {
        std::uint32_t n = 0;
        if (read(in_, &n, sizeof n) != sizeof n) std::abort();
        std::vector<std::byte> bytes(n);
        if (read(in_, bytes.data(), n) != static_cast<ssize_t>(n)) std::abort();
        return ferry::wire::from_bytes(bytes);
    }

   private:
    int in_, out_;
};

/// Another process. Forked before this process has a stream, since a fork does not copy threads.
class importer {
   public:
    explicit importer(std::function<int(line const&)> body) {
        if (pipe(down_) != 0 || pipe(up_) != 0) std::abort();
        pid_ = fork();
        REQUIRE(pid_ >= 0);
        // The other process alone has its ends, so that its end is one of file for a line that waits for it.
        close(std::exchange(pid_ != 0 ? down_[0] : down_[1], -1));
        close(std::exchange(pid_ != 0 ? up_[1] : up_[0], -1));
        if (pid_ != 0) return;
        alarm(static_cast<unsigned>(patience.count()));
        int status = 99;
        try {
            status = body({down_[0], up_[1]});
        } catch (...) {
        }
        _exit(status);
    }
    ~importer() {
        if (pid_ > 0) kill(), finish();
        close(down_[1]), close(up_[0]);
    }
    [[nodiscard]] line talk() const { return {up_[0], down_[1]}; }
    void kill() const { ::kill(pid_, SIGKILL); }
    int finish() {
        int status = 0;
        waitpid(std::exchange(pid_, 0), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

   private:
    int down_[2], up_[2];
    pid_t pid_;
};

}  // namespace support
