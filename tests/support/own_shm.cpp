// Gives the test program a private /dev/shm before main: tests remove the segments of terminated processes and count
// segments, and programs that run at the same time would interfere. The processes that a test starts share it.
#include <support/own_shm.hpp>

#include <sys/file.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace {

/// Without namespaces, programs run one after another: the lock is released when the last process of this program ends.
void take_turns() {
    char const* const why = std::strerror(errno);
    auto const* const temporary = std::getenv("TMPDIR");
    auto const path = std::string{temporary != nullptr ? temporary : "/tmp"} + "/ferry-tests-" + std::to_string(::getuid()) + ".lock";
    std::error_code ignored;
    for (auto const& entry : std::filesystem::directory_iterator{"/proc/self/fd", ignored})
        if (std::filesystem::read_symlink(entry.path(), ignored) == path) return;  // of the test that started this program
    std::fprintf(stderr, "no /dev/shm of its own (%s): this program waits for its turn at %s\n", why, path.c_str());
    int const fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ::flock(fd, LOCK_EX) != 0) std::perror(path.c_str());
}

/// Before any other constructor, which may ask what the namespaces of this process permit (support/skip.hpp).
[[gnu::constructor(101)]] void prepare() {
    if (!support::has_own_shm() && !support::mount_own_shm(support::own_shm_name, "mode=1777")) take_turns();
}

}  // namespace
