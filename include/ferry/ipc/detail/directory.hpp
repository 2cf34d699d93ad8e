// ferry: the directory of the names of topics and registries, and which process owns a name.
#pragma once

#include <ferry/ipc/detail/system.hpp>

#include <dirent.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdlib>
#include <memory>  // a mapping and a directory stream are owned
#include <string>  // names are owned
#include <string_view>
#include <thread>

namespace FERRY_NAMESPACE::ipc::detail {

/// Opens a directory that only this user can enter, and creates it if it is missing. The last part of its path must not
/// be a symbolic link.
[[nodiscard]] inline unique_fd private_directory(int parent, char const* path, char const* api) {
    if (::mkdirat(parent, path, 0700) != 0 && errno != EEXIST) fail_system(api, path);
    unique_fd directory{::openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    struct stat facts = {};
    if (!directory && errno != ENOTDIR && errno != ELOOP && errno != EACCES) fail_system(api, path);
    if (!directory || ::fstat(directory.get(), &facts) != 0 || facts.st_uid != ::geteuid() ||
        (facts.st_mode & 0077) != 0)
        fail(errc::permission, api, path, " is not a directory of mode 0700 of user ", ::geteuid(),
             ": remove it, or pass another directory (topic_options::directory)");
    return directory;
}

/// Opens the directory of names: `chosen`, otherwise $XDG_RUNTIME_DIR/ferry, otherwise /dev/shm/ferry-<uid>.
[[nodiscard]] inline unique_fd names_directory(std::string const& chosen, char const* api) {
    if (!chosen.empty()) return private_directory(AT_FDCWD, chosen.c_str(), api);
    // Checks the owner, because the environment may be that of another user (sudo).
    char const* const run = std::getenv("XDG_RUNTIME_DIR");
    struct stat its = {};
    if (run != nullptr && *run == '/' && ::stat(run, &its) == 0 && its.st_uid == ::geteuid())
        return private_directory(AT_FDCWD, (std::string{run} + "/ferry").c_str(), api);
    return private_directory(AT_FDCWD, (inplace_text{"/dev/shm/ferry-"} << ::geteuid()).c_str(), api);
}

/// Returns the file name for a name, in which `!` replaces each slash, as in sysfs.
/// \throws error  errc::argument: not a name
[[nodiscard]] inline std::string file_of(std::string_view name, char const* api) {
    auto const is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    auto const refuse = [&](message const& why) { fail(errc::argument, api, why); };
    if (name.empty() || name.size() > 200)
        refuse(message{"the name has "} << std::uint64_t{name.size()} << " bytes: pass 1 to 200 bytes");
    if (name[0] == '.') refuse(message{"the name has a dot in front: pass one without it"});
    if (name.find('!') != name.npos)
        refuse(message{"the name has a `!`, which its file has for `/`: pass `/` instead"});
    if (std::ranges::any_of(name, is_control)) refuse(message{"the name has a control character: pass one without it"});
    std::string file{name};
    std::ranges::replace(file, '/', '!');
    return file;
}

/// Calls `f(file, name)` for each file of a directory that has a name.
template <class F>
void for_each_name(int directory, char const* api, F f) {
    unique_fd own{::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    std::unique_ptr<DIR, int (*)(DIR*)> const all{own ? ::fdopendir(own.get()) : nullptr, ::closedir};
    if (!all) fail_system(api, "fdopendir");
    static_cast<void>(own.release());
    while (dirent const* const e = ::readdir(all.get())) {
        if (e->d_name[0] == '.') continue;
        std::string name{e->d_name};
        std::ranges::replace(name, '!', '/');
        f(e->d_name, std::move(name));
    }
}

/// Opens a regular file of this user, without following a symbolic link or waiting. Returns an empty object if the file
/// does not exist.
[[nodiscard]] inline unique_fd open_own(int directory, char const* file, int access, char const* api) {
    unique_fd opened{::openat(directory, file, access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)};
    struct stat facts = {};
    if (!opened && errno == ENOENT) return opened;
    if (!opened && errno != ELOOP && errno != EISDIR && errno != ENXIO && errno != EACCES) fail_system(api, file);
    if (!opened || ::fstat(opened.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid())
        fail(errc::permission, api, file, " is not a regular file of this user: remove it");
    return opened;
}

struct unmap {
    std::size_t bytes;
    void operator()(void* at) const noexcept { ::munmap(at, bytes); }
};
using mapped_file = std::unique_ptr<void, unmap>;

/// Maps the first bytes of a file.
[[nodiscard]] inline mapped_file map_file(int file, std::size_t bytes, int access, char const* api) {
    void* const at = ::mmap(nullptr, bytes, access, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) fail_system(api, "mmap");
    return {at, unmap{bytes}};
}

/// Waits until `futex_wake`, unless the word already has another value. Only the kernel reads the word.
/// \return  0 or EAGAIN if the word has changed; EFAULT if its file is shorter, so that a read of the word would raise
///          SIGBUS; otherwise ETIMEDOUT
inline int futex_wait(void const* word, std::uint32_t value, std::chrono::nanoseconds limit) noexcept {
    timespec const t{static_cast<time_t>(limit.count() / 1'000'000'000), limit.count() % 1'000'000'000};
    return ::syscall(SYS_futex, word, FUTEX_WAIT, value, &t, nullptr, 0) == 0 ? 0 : errno;
}
inline void futex_wake(void const* word) noexcept {
    ::syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

/// Wakes the threads that wait for a change of a word of a file.
inline void wake_waiters(int file, std::size_t offset, char const* api) noexcept {
    try {
        futex_wake(static_cast<std::byte*>(map_file(file, offset + 4, PROT_READ, api).get()) + offset);
    } catch (...) {  // waiting threads read the word again after a second
    }
}

/// The file `.names` of a directory. A process owns a name while it has locked the byte at the hash of the name. The
/// first word of the file changes when a name appears.
class names_file {
   public:
    names_file() = default;
    names_file(int directory, char const* api) : file_{open_own(directory, ".names", O_RDWR | O_CREAT, api)} {
        std::uint32_t const zero = 0;
        struct stat facts = {};
        if (!file_ || ::fstat(file_.get(), &facts) != 0 ||
            (facts.st_size == 0 && ::pwrite(file_.get(), &zero, sizeof zero, 0) != sizeof zero))
            fail_system(api, ".names");
    }
    /// Claims a name for the lifetime of this object and of its copies in forked children. Returns false if another
    /// process owns the name.
    [[nodiscard]] bool claim(std::string_view file) const noexcept { return lock(file_.get(), F_WRLCK, byte_of(file)); }
    [[nodiscard]] bool is_claimed(std::string_view file) const noexcept {
        return is_locked(file_.get(), byte_of(file));
    }
    /// Wakes the subscribers that wait for a name.
    void announce(char const* api) const noexcept {
        auto const now = static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        static_cast<void>(::pwrite(file_.get(), &now, sizeof now, 0));
        wake_waiters(file_.get(), 0, api);
    }
    [[nodiscard]] std::uint32_t arrivals() const noexcept {
        std::uint32_t word = 0;
        static_cast<void>(::pread(file_.get(), &word, sizeof word, 0));
        return word;
    }
    void wait(std::uint32_t arrivals, std::chrono::nanoseconds limit, char const* api) const {
        if (futex_wait(map_file(file_.get(), sizeof arrivals, PROT_READ, api).get(), arrivals, limit) == EFAULT)
            std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(limit, std::chrono::milliseconds{1}));
    }

   private:
    [[nodiscard]] static off_t byte_of(std::string_view file) noexcept {
        std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
        for (char const c : file) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
        return share_byte(hash);
    }
    unique_fd file_;
};

}  // namespace FERRY_NAMESPACE::ipc::detail
