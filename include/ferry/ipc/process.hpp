// ferry: the identity of this process, and whether another process has ended.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/unique_fd.hpp>
#include <ferry/wire/descriptor.hpp>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>  // a word that the kernel clears
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {
namespace detail {

using ferry::detail::fail;

/// Reads the first bytes of a file of /proc into `text`, null-terminated. The number of bytes, or -1 with errno.
template <std::size_t N>
[[nodiscard]] ssize_t read_small(char const* path, char (&text)[N]) noexcept {
    unique_fd const f{::open(path, O_RDONLY | O_CLOEXEC)};
    if (!f) return -1;
    ssize_t n = 0;
    do n = ::read(f.get(), text, N - 1);
    while (n < 0 && errno == EINTR);
    text[n < 0 ? 0 : n] = '\0';
    return n;
}

/// Fields 3, 20 and 22 of /proc/PID/stat (proc(5)). False when the text cannot be parsed.
struct process_stat {
    char state = '?';
    std::int64_t threads = 0;
    std::uint64_t start_time = 0;
};
[[nodiscard]] inline bool parse_stat(char const* text, process_stat& out) noexcept {
    char const* at = std::strrchr(text, ')');  // the name before it may contain any character
    if (at == nullptr || at[1] != ' ') return false;
    out.state = *(at += 2);
    for (int number = 3; number < 20; ++number)
        if ((at = std::strchr(at, ' ')) == nullptr) return false;
        else ++at;
    char* end = nullptr;
    out.threads = std::strtoll(at, &end, 10);
    if (end == at || *end != ' ') return false;
    if ((at = std::strchr(end + 1, ' ')) == nullptr) return false;  // field 21
    out.start_time = std::strtoull(at + 1, &end, 10);
    return end != at + 1;
}

[[nodiscard]] inline bool stat_path(std::uint32_t pid, char (&path)[32]) noexcept {
    auto const text = message{"/proc/"} << pid << "/stat";
    return std::strlen(text.c_str()) < sizeof path && std::strcpy(path, text.c_str()) != nullptr;
}

}  // namespace detail

/// Returns whether a process of this pid namespace has certainly ended.
///
/// A process ID that another process has now counts as ended, and so does a zombie, whose memory is freed; a process
/// whose main thread has ended while others run does not.
/// \param pid         process ID
/// \param start_time  its start time, in clock ticks since boot
[[nodiscard]] inline bool has_ended(std::uint32_t pid, std::uint64_t start_time) noexcept {
    char path[32], text[1024];
    if (pid == 0 || !detail::stat_path(pid, path)) return true;
    if (detail::read_small(path, text) < 0)  // the mount option hidepid hides it as well
        return (errno == ENOENT || errno == ESRCH) && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
    detail::process_stat found;
    if (!detail::parse_stat(text, found)) return false;
    // mutant: ipc_zombie
    return found.start_time != start_time || ((found.state == 'Z' || found.state == 'X') && found.threads <= 1);
}

/// Returns the pid namespace of this process, or 0 where /proc is unavailable. Not cached, since a forked child may be
/// in another one.
[[nodiscard]] inline std::uint64_t own_pid_namespace() noexcept {
    struct stat ns = {};
    return ::stat("/proc/self/ns/pid", &ns) == 0 ? ns.st_ino : 0;
}

/// Returns the identity of this process. Reads /proc: cache the result, but not across a fork.
///
/// \param where  source location for errors
/// \return       process ID, start time, pid namespace and boot ID
/// \throws error  errc::unsupported_platform: /proc is missing, or of another pid namespace; errc::out_of_memory: no
///                file descriptors
[[nodiscard]] inline wire::origin this_process(std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::ipc::this_process";
    wire::origin me;
    me.pid = static_cast<std::uint32_t>(::getpid());
    char link[32] = {}, text[1024];
    struct stat ns = {};
    detail::process_stat own;
    auto const require_files = [] {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) fail_system(api, "reading /proc");
    };
    errno = 0;
    auto const n = ::readlink("/proc/self", link, sizeof link - 1);
    if (n <= 0 || std::strtoull(link, nullptr, 10) != me.pid || ::stat("/proc/self/ns/pid", &ns) != 0 ||
        detail::read_small("/proc/self/stat", text) < 0 || !detail::parse_stat(text, own)) {
        require_files();
        detail::fail(errc::unsupported_platform, api,
                     message{"/proc does not show this process: mount the /proc of its own pid namespace"}, where);
    }
    me.pid_namespace = ns.st_ino;
    me.start_time = own.start_time;
    if (detail::read_small("/proc/sys/kernel/random/boot_id", text) < 36) {
        require_files();
        detail::fail(errc::unsupported_platform, api, message{"/proc/sys/kernel/random/boot_id cannot be read"}, where);
    }
    std::size_t digits = 0;
    for (char const* at = text; *at != '\0' && digits < 2 * me.boot_id.size(); ++at) {
        int const value = *at >= '0' && *at <= '9' ? *at - '0' : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10 : -1;
        if (value < 0) continue;
        auto& byte = me.boot_id[digits++ / 2];
        byte = static_cast<std::uint8_t>(byte << 4 | value);
    }
    return me;
}

/// Identifies this process to its own objects: a forked child, in any pid namespace, is another process.
///
/// The kernel clears the word in the child of a fork; process IDs are not compared.
class process_mark {
   public:
    /// The mark of no process.
    process_mark() = default;
    /// Returns the mark of this process.
    [[nodiscard]] static process_mark here() noexcept {
        static std::atomic<std::uint64_t> last{0};
        auto& w = word();
        std::uint64_t value = w.load();
        if (value == 0) {
            std::uint64_t const fresh = last.fetch_add(1) + 1;  // its copy in a child continues at the parent's number
            if (w.compare_exchange_strong(value, fresh)) value = fresh;
        }
        return {w, value};
    }
    [[nodiscard]] explicit operator bool() const noexcept { return word_ != nullptr; }
    /// Returns whether it is the mark of this process.
    [[nodiscard]] bool is_here() const noexcept { return word_ != nullptr && word_->load() == value_; }

   private:
    process_mark(std::atomic<std::uint64_t> const& word, std::uint64_t value) noexcept : word_{&word}, value_{value} {}
    [[nodiscard]] static std::atomic<std::uint64_t>& word() noexcept {
        static std::atomic<std::uint64_t> otherwise{0};
        static auto& found = []() -> std::atomic<std::uint64_t>& {
            auto const bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
            void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            // mutant: ipc_wipe_on_fork
            if (page != MAP_FAILED && ::madvise(page, bytes, MADV_WIPEONFORK) == 0)
                return *::new (page) std::atomic<std::uint64_t>{0};
            ::pthread_atfork(nullptr, nullptr, [] { otherwise = 0; });  // before Linux 4.14
            return otherwise;
        }();
        return found;
    }

    std::atomic<std::uint64_t> const* word_ = nullptr;
    std::uint64_t value_ = 0;
};

/// Checks repeatedly, in less than a microsecond each, whether a process has ended: by a pidfd where the system has
/// them, otherwise by /proc. Move-only; thread-safe.
class process_watch {
   public:
    process_watch(std::uint32_t pid, std::uint64_t start_time) noexcept : pid_{pid}, start_time_{start_time} {
#ifdef SYS_pidfd_open
        unique_fd opened{static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u))};
        // Checked after opening, so that the pidfd refers to this process and not to a later one.
        if (opened && !ipc::has_ended(pid, start_time)) pidfd_ = std::move(opened);
#endif
    }
    /// Returns whether the process has ended.
    [[nodiscard]] bool has_ended() const noexcept {
        if (!pidfd_) return ipc::has_ended(pid_, start_time_);
        pollfd one{pidfd_.get(), POLLIN, 0};
        return ::poll(&one, 1, 0) > 0;
    }

   private:
    std::uint32_t pid_;
    std::uint64_t start_time_;
    unique_fd pidfd_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
