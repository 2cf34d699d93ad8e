// ferry: segments of POSIX shared memory: a control page and, for tensors in host memory, the data after it.
#pragma once

#include <ferry/base/detail/checked.hpp>
#include <ferry/ipc/detail/control_page.hpp>
#include <ferry/ipc/detail/names.hpp>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <memory>  // a mapping is owned

namespace FERRY_NAMESPACE::ipc::detail {

enum class access_mode : std::uint8_t { read_only, read_write };

/// Reports the error of a system call. ENOENT means that the exporter has closed the share, or has ended.
[[noreturn]] FERRY_COLD inline void fail_segment(int number, char const* call, std::string const& name, char const* api,
                                                 std::source_location where) {
    message text{call};
    bool const is_file = !is_anonymous(name);
    text << " of " << (is_file ? shared_memory_folder.data() : "") << name.c_str() << ": " << std::strerror(number);
    auto const code = code_of(number, errc::unsupported_platform);
    text << (number == ENOENT ? ": its exporter has closed it, or has ended: get a new descriptor"
             : number == ENOSPC && is_file
                 ? ": free memory there, mount it larger, or share anonymous segments (session_options::segments)"
             : number == EFBIG                    ? ": raise the limit of the size of files (`ulimit -f`)"
             : code == errc::unsupported_platform ? ": use the other kind of segments (session_options::segments)"
                                                  : fix_of(number, code));
    fail(code, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_without_file(std::string const& name, char const* api,
                                                      std::source_location where) {
    fail(errc::permission, api, where, "the segment ", name.c_str(),
         " is anonymous, and its file descriptor is missing: pass the one that came over the socket with the "
         "descriptor (attach_options::files)");
}

[[nodiscard]] inline unique_fd reopened(unique_fd const& file, int access, std::string const& name, char const* api,
                                        std::source_location where) {
    unique_fd own{reopen(file.get(), access)};
    if (!own) fail_segment(errno == ENOENT ? ENOSYS : errno, "open(/proc/self/fd)", name, api, where);
    return own;
}

/// Returns whether a file of this size is beyond RLIMIT_FSIZE, for which the kernel ends the process by SIGXFSZ.
[[nodiscard]] inline bool exceeds_file_limit(std::uint64_t bytes) noexcept {
    struct rlimit most = {};
    return ::getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur;
}

/// The seals of every anonymous segment, which prevent the removal of pages that importers map.
inline constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW;

/// The seals of an anonymous segment that importers cannot write, and of a frozen one, which no process can write.
inline constexpr int no_new_writers = 0x10, no_writers = no_new_writers | F_SEAL_WRITE;  // F_SEAL_FUTURE_WRITE: 5.1

/// Size of the control page, a multiple of the page size, so that the data is page-aligned.
[[nodiscard]] inline std::size_t page_bytes() noexcept {
    static std::size_t const bytes = std::max(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), std::size_t{16384});
    return bytes;
}

/// A mapped segment. Its pages exist while a process maps them, with or without a name. Movable; thread-safe except for
/// moves; may be destroyed on any thread. Each object has an open file description of its own, so that its locks last
/// until it and its copies in forked children are destroyed.
class segment {
   public:
    /// Creates a segment of mode 0600 with zeroed data, and locks the byte of the ID in its name, which must be unused.
    /// Allocates all pages, so that a full /dev/shm is an error here and not a SIGBUS later. Creates the name last.
    /// Seals the size of an anonymous segment.
    [[nodiscard]] static segment create(std::string const& name, std::uint64_t bytes, std::uint64_t id,
                                        std::source_location where = std::source_location::current()) {
        constexpr auto api = "ferry::ipc::segment::create";
        auto const fail_on = [&](char const* call, int number) { fail_segment(number, call, name, api, where); };
        std::size_t total = 0;
        off_t end = 0;
        if (!ferry::detail::checked_add(static_cast<std::size_t>(bytes), page_bytes(), total) ||
            __builtin_add_overflow(total, std::size_t{0}, &end))
            fail(errc::overflow, api, where, "a segment of ", bytes,
                 " bytes exceeds the largest size of a file: request a smaller one");
        bool const is_anonymous = detail::is_anonymous(name);
        unique_fd f{is_anonymous ? ::memfd_create(name.c_str() + 1, MFD_CLOEXEC | MFD_ALLOW_SEALING)
                                 : ::open(shared_memory_folder.data(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
        auto const missing_folder = [] { return errno == ENOENT ? ENOSYS : errno; };
        if (!f) fail_on(is_anonymous ? "memfd_create" : "open(O_TMPFILE)", missing_folder());
        // The umask must not change the mode.
        if (::fchmod(f.get(), 0600) != 0) fail_on("fchmod", errno);
        if (exceeds_file_limit(total)) fail_on("posix_fallocate", EFBIG);
        // Checks the size before it allocates pages, which would evict other memory. Allocates in pieces, so that a
        // long allocation makes progress although signals interrupt it.
        constexpr off_t piece = off_t{64} << 20;
        struct statvfs room = {};
        // A file system without a limit (mounted with size=0) reports 0 blocks.
        if (!is_anonymous && ::fstatvfs(f.get(), &room) == 0 && room.f_blocks != 0 &&
            total / room.f_bsize > room.f_bavail)
            fail_on("posix_fallocate", ENOSPC);
        for (off_t done = 0; done < end;) {
            auto const n = std::min(piece, end - done);
            int const number = ::posix_fallocate(f.get(), done, n);
            if (number == 0) done += n;
            else if (number != EINTR) fail_on("posix_fallocate", number);
        }
        if (is_anonymous && ::fcntl(f.get(), F_ADD_SEALS, fixed_size) != 0) fail_on("fcntl(F_ADD_SEALS)", errno);
        segment made;
        if (is_anonymous) made.handout_ = std::exchange(f, reopened(f, O_RDWR, name, api, where));
        made.map(std::move(f), total, access_mode::read_write, name, api, where);
        // Maps the pages at once, which takes a third of the time of page faults at the first writes. Fails without an
        // effect before Linux 5.14.
        constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
        static_cast<void>(::madvise(made.base_.get(), total, populate_write));
        made.control().begin(id);
        if (!made.link(name)) fail_on("linkat", missing_folder());
        return made;
    }

    /// Opens a segment of this user that has `bytes` of data, and maps it. The control page is writable unless
    /// `is_sealed`. `id` identifies the allocation; if empty, any ID is accepted. `file` is the borrowed descriptor of
    /// an anonymous segment.
    [[nodiscard]] static segment open(std::string const& name, std::uint64_t bytes, std::optional<std::uint64_t> id,
                                      access_mode mode, int file = -1,
                                      std::source_location where = std::source_location::current()) {
        constexpr auto api = "ferry::ipc::segment::open";
        auto const refuse = [&](errc code, auto... parts) {
            fail(code, api, where, "the segment ", name.c_str(), parts...);
        };
        auto const parts = parse_segment_name(name);
        if (!parts)
            fail(errc::bad_descriptor, api, where, "`", name.c_str(),
                 "` is not the name of a segment: get a new descriptor from the exporter");
        bool const is_anonymous = parts->kind == segment_kind::anonymous;
        if (is_anonymous && file < 0) fail_without_file(name, api, where);
        segment opened;
        unique_fd f{is_anonymous ? ::fcntl(file, F_DUPFD_CLOEXEC, 0)
                                 : ::open(path_of(name.c_str()).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
        int const number = f ? 0 : errno;
        if (number == ENOENT && parts->device != shared_memory_device())
            refuse(
                errc::unsupported_platform,
                " is in another /dev/shm: use one for both containers (docker run --ipc), or share anonymous segments "
                "(session_options::segments)");
        if (!f) fail_segment(number, is_anonymous ? "fcntl(F_DUPFD_CLOEXEC)" : "open", name, api, where);
        struct stat facts = {};
        if (::fstat(f.get(), &facts) != 0) fail_segment(errno, "fstat", name, api, where);
        if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 0077) != 0)
            refuse(errc::permission, " is another user's, or open to others: its owner is ", facts.st_uid,
                   ", its mode ", facts.st_mode, ": share and attach as one user");
        // F_GET_SEALS fails with -1, which has all bits set, on a file system without seals.
        int const seals = is_anonymous ? ::fcntl(f.get(), F_GET_SEALS) : 0;
        if (is_anonymous && (seals < 0 || (seals & fixed_size) != fixed_size))
            refuse(errc::permission,
                   " is not a memfd with a sealed size, which no process can shrink while it is mapped: pass the file "
                   "descriptor of a segment of ferry");
        std::uint64_t total = 0;
        if (!ferry::detail::checked_add(bytes, static_cast<std::uint64_t>(page_bytes()), total) ||
            total > static_cast<std::uint64_t>(facts.st_size))
            refuse(errc::bad_descriptor, " has ", facts.st_size, " bytes with its control page, expected ", bytes,
                   " and that page: get a new descriptor from the exporter");
        opened.is_sealed_ = is_anonymous && (seals & no_writers) != 0;
        if (opened.is_sealed_ && mode == access_mode::read_write)
            refuse(errc::permission, " is sealed against writes: attach it read-only");
        int const access = opened.is_sealed_ ? O_RDONLY : O_RDWR;
        if (is_anonymous) opened.handout_ = std::exchange(f, reopened(f, access, name, api, where));
        opened.map(std::move(f), static_cast<std::size_t>(total), mode, name, api, where);
        if (!opened.control().is_valid(id))
            refuse(errc::stale_handle,
                   " contains another allocation than the descriptor states: get a new descriptor from the exporter");
        return opened;
    }

    [[nodiscard]] control_page& control() const noexcept { return *static_cast<control_page*>(base_.get()); }
    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(base_.get()) + page_bytes(); }
    /// Returns the size of the data in bytes.
    [[nodiscard]] std::size_t size() const noexcept { return base_.get_deleter().bytes - page_bytes(); }

    /// Returns a file descriptor of an anonymous segment whose open file description has no locks; -1 for a named one.
    [[nodiscard]] int file() const noexcept { return handout_.get(); }
    [[nodiscard]] int locks() const noexcept { return file_.get(); }
    /// Opens the file again for locks, in a forked child, which shares the open file description of its parent. Returns
    /// false, without an effect, when the file cannot be opened.
    [[nodiscard]] bool reopen_locks() noexcept {
        unique_fd fresh{reopen(file_.get())};
        if (!fresh) return false;
        file_ = std::move(fresh);
        return true;
    }

    /// Locks the byte of the ID in an unused name, and gives the segment the name. An anonymous segment only gets the
    /// lock. Returns false, with errno, when the segment has no name left, or the name cannot be made.
    [[nodiscard]] bool link(std::string const& name) const noexcept {
        auto const parts = parse_segment_name(name).value_or(segment_name{});
        auto const byte = share_byte(parts.id);
        if (!lock(locks(), F_RDLCK, byte)) return false;  // before the name appears: see sweep
        if (parts.kind == segment_kind::anonymous) return true;
        inplace_text const self = inplace_text{"/proc/self/fd/"} << file_.get();
        inplace_text const path = path_of(name.c_str());
        if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
        int const number = errno;
        lock(locks(), F_UNLCK, byte);
        errno = number;
        return false;
    }
    /// Unlocks the byte of the ID in a name, and removes the name. Must be called in the process that called `link`.
    /// Returns false when the name exists and cannot be removed.
    bool unlink(std::string const& name) const noexcept {
        auto const parts = parse_segment_name(name).value_or(segment_name{});
        lock(locks(), F_UNLCK, share_byte(parts.id));
        return parts.kind == segment_kind::anonymous || ::unlink(path_of(name.c_str()).c_str()) == 0 || errno == ENOENT;
    }
    /// Seals an anonymous segment, so that no process can map it with write access any more. Existing writable mappings
    /// remain. No effect on a named segment, or before Linux 5.1.
    void seal() const noexcept { static_cast<void>(::fcntl(file(), F_ADD_SEALS, no_new_writers)); }
    /// Makes this mapping of an anonymous segment read-only, at the same address, and seals its data for ever. Returns
    /// false, with errno, when it cannot be sealed; EBUSY means that another mapping has write access.
    [[nodiscard]] bool freeze() const noexcept {
        unique_fd const reader{reopen(file(), O_RDONLY)};
        auto const map = [&](int access, int from) {
            return ::mmap(base_.get(), base_.get_deleter().bytes, access, MAP_SHARED | MAP_FIXED, from, 0);
        };
        if (!reader || map(PROT_READ, reader.get()) == MAP_FAILED) return false;
        if (::fcntl(file(), F_ADD_SEALS, F_SEAL_WRITE) == 0) return true;
        int const number = errno;
        static_cast<void>(map(PROT_READ | PROT_WRITE, locks()));
        errno = number;
        return false;
    }
    /// Returns whether no process can write the data any more, and all of its pages exist. When memory is short, the
    /// read of a page that does not exist would end the process by SIGBUS.
    [[nodiscard]] bool is_frozen() const noexcept {
        int const seals = handout_ ? ::fcntl(file(), F_GET_SEALS) : 0;
        if (seals < 0 || (seals & F_SEAL_WRITE) == 0) return false;
        struct stat facts = {};
        return ::fstat(file(), &facts) == 0 && facts.st_blocks >= (facts.st_size + 511) / 512;
    }
    /// Returns whether the control page is mapped read-only, because the segment was sealed when it was opened.
    [[nodiscard]] bool is_sealed() const noexcept { return is_sealed_; }

    /// Returns whether a share is open, which is when another open file description has locked its byte.
    [[nodiscard]] bool is_open(std::uint64_t id) const noexcept { return is_locked(locks(), share_byte(id)); }

   private:
    struct unmap {
        std::size_t bytes;
        void operator()(void* base) const noexcept { ::munmap(base, bytes); }
    };

    void map(unique_fd f, std::size_t total, access_mode mode, std::string const& name, char const* api,
             std::source_location where) {
        int const access = is_sealed_ ? PROT_READ : PROT_READ | PROT_WRITE;
        void* const at = ::mmap(nullptr, total, access, MAP_SHARED, f.get(), 0);
        if (at == MAP_FAILED) fail_segment(errno, "mmap", name, api, where);
        base_ = {at, unmap{total}};
        file_ = std::move(f);
        if (mode == access_mode::read_only && !is_sealed_ && size() != 0 && ::mprotect(data(), size(), PROT_READ) != 0)
            fail_segment(errno, "mprotect", name, api, where);
    }

    unique_fd file_{};     // its open file description has the locks of this mapping
    unique_fd handout_{};  // for an anonymous segment; its open file description has no locks
    bool is_sealed_ = false;
    std::unique_ptr<void, unmap> base_{};
};

}  // namespace FERRY_NAMESPACE::ipc::detail
