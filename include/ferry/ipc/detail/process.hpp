// ferry: the identity of this process, and whether it has been forked.
#pragma once

#include <ferry/ipc/detail/system.hpp>
#include <ferry/wire/detail/hex.hpp>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>  // a word that the kernel clears
#include <new>

namespace FERRY_NAMESPACE::ipc::detail {

/// Returns the identity of this process. Reads /proc: cache the result, but not across a fork.
[[nodiscard]] inline wire::origin this_process(std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::ipc";
    wire::origin me;
    me.pid = static_cast<std::uint32_t>(::getpid());
    errno = 0;
    auto const fail_on = [&](char const* path) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) fail_system(api, "reading /proc");
        fail(errc::unsupported_platform, api, where, path, " cannot be read: mount /proc");
    };
    struct stat ns = {};
    if (::stat("/proc/self/ns/pid", &ns) != 0) fail_on("/proc/self/ns/pid");
    me.pid_namespace = ns.st_ino;
    constexpr auto boot_id = "/proc/sys/kernel/random/boot_id";
    unique_fd const file{::open(boot_id, O_RDONLY | O_CLOEXEC)};
    char text[36];
    if (!file || ::read(file.get(), text, sizeof text) != sizeof text ||
        !wire::detail::from_text({text, sizeof text}, me.boot_id))
        fail_on(boot_id);
    return me;
}

/// Identifies this process to its own objects. A forked child, in any pid namespace, is another process, because the
/// kernel clears a word in the child of a fork. Process IDs are not compared.
class process_mark {
   public:
    process_mark() = default;
    [[nodiscard]] static process_mark here() noexcept {
        static std::atomic<std::uint64_t> last{0};
        auto& w = word();
        std::uint64_t value = w.load();
        if (value == 0) {
            std::uint64_t const fresh = last.fetch_add(1) + 1;  // a child continues from the number of its parent
            if (w.compare_exchange_strong(value, fresh)) value = fresh;
        }
        return {w, value};
    }
    [[nodiscard]] explicit operator bool() const noexcept { return word_ != nullptr; }
    [[nodiscard]] bool is_here() const noexcept { return word_ != nullptr && word_->load() == value_; }

   private:
    process_mark(std::atomic<std::uint64_t> const& word, std::uint64_t value) noexcept : word_{&word}, value_{value} {}
    [[nodiscard]] static std::atomic<std::uint64_t>& word() noexcept {
        static std::atomic<std::uint64_t> otherwise{0};
        static auto& found = []() -> std::atomic<std::uint64_t>& {
            auto const bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
            void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

/// Returns a number that changes when this process is forked by fork(2).
[[nodiscard]] inline std::uint64_t forks() noexcept {
    static std::atomic<std::uint64_t> count{0};
    // Changes the number before and after the fork, because other threads of the parent run meanwhile.
    [[maybe_unused]] static int const counting = ::pthread_atfork([] { ++count; }, [] { ++count; }, nullptr);
    return count.load();
}

}  // namespace FERRY_NAMESPACE::ipc::detail
