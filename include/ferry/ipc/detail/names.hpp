// ferry: names of segments, and the removal of names that ended processes have left.
#pragma once

#include <ferry/ipc/detail/system.hpp>
#include <ferry/ipc/options.hpp>
#include <ferry/wire/detail/hex.hpp>

#include <dirent.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>

namespace FERRY_NAMESPACE::ipc::detail {

/// The parts of the name of a segment, `/ferry-<uid>-<device>-<pid>-<id>`, all in decimal. A file in the /dev/shm with
/// this device number has the name. The name of an anonymous segment, `/ferry-memfd-…`, only identifies it; there is no
/// such file. The lock on the byte of the ID tells whether a share has the name; the process ID is informational.
struct segment_name {
    std::uint64_t uid = 0, device = 0;
    std::uint32_t pid = 0;
    std::uint64_t id = 0;
    segment_kind kind = segment_kind::named;

    friend bool operator==(segment_name const&, segment_name const&) = default;
};

/// The folder of POSIX shared memory on Linux, with glibc and musl. Opening files in it avoids librt of old glibc.
inline constexpr std::string_view shared_memory_folder = "/dev/shm";

/// Returns the device number of /dev/shm, which differs between containers that do not share it; 0 if it is missing.
[[nodiscard]] inline std::uint64_t shared_memory_device() noexcept {
    struct stat folder = {};
    return ::stat(shared_memory_folder.data(), &folder) == 0 ? folder.st_dev : 0;
}

[[nodiscard]] inline std::string to_string(segment_name const& n) {
    auto const text = inplace_text{n.kind == segment_kind::named ? "/ferry-" : "/ferry-memfd-"}
                      << n.uid << '-' << n.device << '-' << n.pid << '-' << n.id;
    return text.c_str();
}

/// Parses a name. Returns nothing unless the text is exactly as `to_string` writes it, so no path leads out of the
/// folder.
[[nodiscard]] inline std::optional<segment_name> parse_segment_name(std::string_view text) {
    constexpr std::string_view prefix = "/ferry-", of_anonymous = "memfd-";
    if (!text.starts_with(prefix)) return {};
    text.remove_prefix(prefix.size());
    auto const kind = text.starts_with(of_anonymous) ? segment_kind::anonymous : segment_kind::named;
    if (kind == segment_kind::anonymous) text.remove_prefix(of_anonymous.size());
    segment_name n{.kind = kind};
    auto const take = [&](auto& number) {
        auto const end = text.find('-');
        if (end == text.npos || !wire::detail::from_decimal(text.substr(0, end), number)) return false;
        text.remove_prefix(end + 1);
        return true;
    };
    if (!take(n.uid) || !take(n.device) || !take(n.pid) || !wire::detail::from_decimal(text, n.id)) return {};
    return n;
}

/// Returns the path of a segment. Does not allocate, because names are also removed when memory is short.
[[nodiscard]] inline inplace_text path_of(char const* name) noexcept {
    return inplace_text{shared_memory_folder.data()} << name;
}

[[nodiscard]] inline bool is_anonymous(std::string_view name) noexcept {
    auto const parts = parse_segment_name(name);
    return parts && parts->kind == segment_kind::anonymous;
}

/// Returns a random ID, never 0. IDs are random so that they are unique, also in the parent and child of a fork.
[[nodiscard]] inline std::uint64_t fresh_id(char const* api, std::source_location where) {
    std::uint64_t id = 0;
    while (id == 0)
        if (::getrandom(&id, sizeof id, 0) != sizeof id && errno != EINTR)
            fail(errc::unsupported_platform, api, where,
                 "the system has no random numbers: allow getrandom in the filter of system calls");
    return id;
}

/// Removes the names that ended exporters of this user have left, in any pid namespace. These are the names whose byte
/// no process has locked.
///
/// Importers keep their mappings. Safe at any time and in several processes, because a name is locked before it appears
/// and never used again. The work of a call is bounded, whatever files other programs put into the folder; it takes at
/// most about 10 ms. `from` is the position in the folder at which the call begins, 0 for the first entry, and is set
/// to the position for the next call. Returns the number of names removed.
inline std::size_t sweep(long& from) noexcept {
    DIR* const folder = ::opendir(shared_memory_folder.data());
    if (folder == nullptr) return 0;
    if (from != 0) ::seekdir(folder, from);
    int const in = ::dirfd(folder);
    std::size_t removed = 0;
    constexpr int an_entry = 1, its_owner = 4, its_lock = 16;  // about 0.25 us each
    for (int work = 32'768; work > 0; work -= an_entry) {
        dirent const* const entry = ::readdir(folder);
        from = entry != nullptr ? ::telldir(folder) : 0;
        if (entry == nullptr) break;
        std::string_view const file_name{entry->d_name};
        if (!file_name.starts_with("ferry-")) continue;
        auto const n = parse_segment_name((inplace_text{"/"} << entry->d_name).c_str());
        if (!n || n->uid != ::geteuid() || n->kind != segment_kind::named) continue;
        struct stat facts = {};
        work -= its_owner;
        if (::fstatat(in, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || facts.st_uid != ::geteuid()) continue;
        work -= its_lock;
        unique_fd const file{::openat(in, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
        if (file && !is_locked(file.get(), share_byte(n->id))) removed += ::unlinkat(in, entry->d_name, 0) == 0;
    }
    ::closedir(folder);
    return removed;
}

}  // namespace FERRY_NAMESPACE::ipc::detail
