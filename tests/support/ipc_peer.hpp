// Descriptors as lines of text, and another program that reads them.
#pragma once

#include <ferry/wire/binary.hpp>

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace support {

[[nodiscard]] inline std::string to_hex(ferry::wire::descriptor const& d) {
    std::string text;
    for (auto const b : ferry::wire::to_bytes(d)) {
        text += "0123456789abcdef"[static_cast<unsigned>(b) >> 4];
        text += "0123456789abcdef"[static_cast<unsigned>(b) & 15];
    }
    return text;
}
[[nodiscard]] inline ferry::wire::descriptor from_hex(std::string const& text) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return ferry::wire::from_bytes(bytes);
}

/// A started program; killed by the destructor if it is still running.
class peer {
   public:
    explicit peer(std::vector<std::string> command, bool traced = false) {
        int down[2], up[2];
        if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) std::abort();
        pid_ = fork();
        if (pid_ < 0) std::abort();
        if (pid_ == 0) {
            dup2(down[0], 0);
            dup2(up[1], 1);
            if (traced && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(98);
            std::vector<char*> words;
            for (auto& word : command) words.push_back(word.data());
            words.push_back(nullptr);
            execv(words[0], words.data());
            _exit(97);
        }
        close(down[0]);
        close(up[1]);
        in_ = up[0];
        out_ = down[1];
    }
    peer(peer const&) = delete;
    peer& operator=(peer const&) = delete;
    ~peer() {
        if (pid_ > 0) ::kill(pid_, SIGKILL), static_cast<void>(finish());
        close(in_);
        close(out_);
    }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    void tell(std::string line) const {
        line += '\n';
        if (write(out_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
    }
    /// The next line, without line end; empty when the program has ended.
    [[nodiscard]] std::string hear() const {
        std::string line;
        for (char c = 0; read(in_, &c, 1) == 1 && c != '\n';) line += c;
        return line;
    }
    void kill() const { ::kill(pid_, SIGKILL); }
    /// The exit status, or 128 + the signal that ended the program.
    int finish() {
        int status = 0;
        while (waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status)) ptrace(PTRACE_CONT, pid_, nullptr, nullptr);
        pid_ = 0;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }

   private:
    pid_t pid_;
    int in_ = -1, out_ = -1;
};

}  // namespace support
