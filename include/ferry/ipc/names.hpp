// ferry: what segments are called, so that everybody knows whose they are and whether he still lives.
#pragma once

#include <ferry/ipc/process.hpp>
#include <ferry/wire/descriptor.hpp>

#include <dirent.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>  // names live as long as what they name
#include <string_view>

namespace ferry::inline v0::ipc {

/// Where the memory of a segment can be found.
enum class segment_kind : std::uint8_t {
    named,      ///< in a file of mode 0600 in /dev/shm: whoever knows its name can open it
    anonymous,  ///< in a memfd: whoever got its file descriptor can open it, and nothing is left when all have ended
};

/// `/ferry-<uid>-<pid namespace>-<pid>-<start time>-<id>`, all decimal: a file in /dev/shm. Of an anonymous segment
/// `/ferry-memfd-…`, which is no file, and tells it from all others.
struct segment_name {
    std::uint64_t uid = 0, pid_namespace = 0;
    std::uint32_t pid = 0;
    std::uint64_t start_time = 0, id = 0;
    segment_kind kind = segment_kind::named;

    friend bool operator==(segment_name const&, segment_name const&) = default;
};

/// Where POSIX shared memory lives on Linux, for glibc and musl alike. Without shm_open, old glibc needs no librt.
inline constexpr std::string_view shared_memory_folder = "/dev/shm";

/// The name of the segment in the file system, from its parts.
[[nodiscard]] inline std::string to_string(segment_name const& n) {
    auto const text = message{n.kind == segment_kind::named ? "/ferry-" : "/ferry-memfd-"}
                      << n.uid << '-' << n.pid_namespace << '-' << n.pid << '-' << n.start_time << '-' << n.id;
    return text.c_str();
}

/// Nothing unless the text is exactly what `to_string` writes: no path leads out of the folder this way.
[[nodiscard]] inline std::optional<segment_name> parse_segment_name(std::string_view text) {
    constexpr std::string_view prefix = "/ferry-", of_anonymous = "memfd-";
    if (!text.starts_with(prefix)) return {};
    text.remove_prefix(prefix.size());
    auto const kind = text.starts_with(of_anonymous) ? segment_kind::anonymous : segment_kind::named;
    if (kind == segment_kind::anonymous) text.remove_prefix(of_anonymous.size());
    std::uint64_t numbers[5] = {};
    for (int i = 0; i < 5; ++i) {
        std::size_t n = 0;
        for (; n < text.size() && text[n] >= '0' && text[n] <= '9'; ++n)
            if (!ferry::detail::checked_multiply(numbers[i], std::uint64_t{10}, numbers[i]) ||
                !ferry::detail::checked_add(numbers[i], static_cast<std::uint64_t>(text[n] - '0'), numbers[i]))
                return {};
        if (n == 0 || (n > 1 && text[0] == '0')) return {};
        text.remove_prefix(n);
        if (text.empty() != (i == 4) || (i < 4 && text[0] != '-')) return {};
        if (i < 4) text.remove_prefix(1);
    }
    if (numbers[2] > UINT32_MAX) return {};
    return segment_name{numbers[0], numbers[1], static_cast<std::uint32_t>(numbers[2]), numbers[3], numbers[4], kind};
}

namespace detail {

/// Of a segment by its name; without an allocation, since names are removed when memory is short, too.
[[nodiscard]] inline message path_of(char const* name) noexcept { return message{shared_memory_folder.data()} << name; }
[[nodiscard]] inline message path_of(std::string const& name) noexcept { return path_of(name.c_str()); }

[[nodiscard]] inline bool is_anonymous(std::string_view name) noexcept {
    auto const parts = parse_segment_name(name);
    return parts && parts->kind == segment_kind::anonymous;
}

/// A number that nobody had before, and that no state that a fork copies could give twice. Never 0.
[[nodiscard]] inline std::uint64_t fresh_id(char const* api, std::source_location where) {
    std::uint64_t id = 0;
    while (id == 0)
        if (::getrandom(&id, sizeof id, 0) != sizeof id && errno != EINTR)
            fail(errc::unsupported_platform, api, message{"the system gives no random numbers (getrandom)"}, where);
    return id;
}

}  // namespace detail

/// Removes the names that processes of this user and pid namespace left behind when they were killed; what importers
/// still map stays theirs. The number of names removed. Safe beside anything: a name is never used again.
inline std::size_t sweep(wire::origin const& me) noexcept {
    DIR* const folder = ::opendir(shared_memory_folder.data());
    if (folder == nullptr) return 0;
    std::size_t removed = 0;
    while (dirent const* const entry = ::readdir(folder)) {
        message const name = message{"/"} << entry->d_name;
        auto const n = parse_segment_name(name.c_str());
        if (n && n->uid == ::geteuid() && n->pid_namespace == me.pid_namespace && has_ended(n->pid, n->start_time))
            removed += ::unlink(detail::path_of(name.c_str()).c_str()) == 0;
    }
    ::closedir(folder);
    return removed;
}

}  // namespace ferry::inline v0::ipc
