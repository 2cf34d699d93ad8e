// ferry: a listening socket in a directory that only its user can write to.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/process.hpp>
#include <ferry/ipc/socket.hpp>
#include <ferry/ipc/unique_fd.hpp>

#include <poll.h>
#include <string>  // paths are made here
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// A listening Unix socket. The destructor removes the file of the socket, unless it runs in a forked child or
/// another socket has replaced the file.
class listener {
   public:
    listener(std::string path, mode_t mode) : path_{std::move(path)} {
        if ((mode & ~mode_t{0660}) != 0)
            detail::fail(errc::argument, api, "the socket's mode lets others in: 0600 or 0660");
        auto const slash = path_.rfind('/');
        locked_directory const alone{slash == 0 ? "/" : path_.substr(0, slash)};
        auto const to = socket::address(path_, api);
        remove_stale(to);
        // bind(2) creates the file with the mode of the unbound socket, so that it is never open to others, not even
        // between bind and chmod.
        if (::fchmod(socket_.get(), mode) != 0) fail_system(api, "fchmod");
        if (::bind(socket_.get(), reinterpret_cast<sockaddr const*>(&to), sizeof to) != 0) fail_system(api, "bind");
        if (::lstat(path_.c_str(), &file_) != 0 || ::chmod(path_.c_str(), mode) != 0 ||
            ::listen(socket_.get(), 128) != 0) {
            int const number = errno;
            ::unlink(path_.c_str());
            fail_system(api, "listen", number);
        }
    }
    ~listener() { close(); }

    /// Closes the socket and removes its file. No effect on a closed listener.
    void close() noexcept {
        if (!socket_) return;
        socket_ = unique_fd{};
        struct stat there{};
        // mutant: ipc_unlink_fork, ipc_unlink_own
        if (process_.is_here() && ::lstat(path_.c_str(), &there) == 0 && there.st_dev == file_.st_dev &&
            there.st_ino == file_.st_ino)
            ::unlink(path_.c_str());
    }
    [[nodiscard]] int get() const noexcept { return socket_.get(); }
    [[nodiscard]] std::string const& path() const noexcept { return path_; }

   private:
    static constexpr auto api = "ferry::ipc::server";

    /// Creates the directory if it is missing, checks it, and locks it: exporters start one at a time, so that none
    /// removes a socket that another has just made. Any process that can read the directory can keep the lock, so the
    /// wait for it is bounded.
    struct locked_directory {
        unique_fd fd;

        explicit locked_directory(std::string const& path) {
            if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
                if (errno != ENOENT && errno != ENOTDIR) fail_system(api, "making the socket's directory");
                detail::fail(errc::argument, api,
                             message{"there is no place for "}
                                 << path.c_str()
                                 << ": make the directory above it, or choose another path (XDG_RUNTIME_DIR is where "
                                    "bare names go)");
            }
            fd = unique_fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
            if (!fd)
                fail_system(api, "opening the socket's directory", errno == ELOOP || errno == ENOTDIR ? EACCES : errno);
            struct stat is{};
            if (::fstat(fd.get(), &is) != 0) fail_system(api, "fstat");
            if (is.st_uid != ::geteuid())  // mutant: ipc_directory_owner
                detail::fail(errc::permission, api,
                             message{path.c_str()} << " belongs to user " << std::uint64_t{is.st_uid}
                                                   << ": choose a directory of your own");
            if ((is.st_mode & 022) != 0)  // mutant: ipc_directory_mode
                detail::fail(errc::permission, api,
                             message{"others may write to "} << path.c_str() << ": choose a directory of mode 0700");
            for (int tries = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
                if (errno != EINTR && errno != EWOULDBLOCK) fail_system(api, "locking the directory");
                if (tries == 200)
                    detail::fail(errc::permission, api,
                                 "another process has locked the socket's directory for 2 s: end it, or choose a "
                                 "directory of mode 0700");
                ::poll(nullptr, 0, 10);
            }
        }
        /// Explicitly, because a child that was forked meanwhile has the file open as well.
        ~locked_directory() { ::flock(fd.get(), LOCK_UN); }
    };

    /// Removes a socket on which no server listens, or whose server has exited: a forked child of it may still have the
    /// socket, without serving it.
    static void remove_stale(sockaddr_un const& to) {
        struct stat there{};
        if (::lstat(to.sun_path, &there) != 0) return;
        if (!S_ISSOCK(there.st_mode))
            detail::fail(errc::argument, api, message{to.sun_path} << " is no socket: choose another path");
        auto const probe = socket::make(api);
        int const refused = socket::connect(probe.get(), to);
        bool in_use = refused != ECONNREFUSED && refused != ENOENT;
        if (refused == 0) {
            try {
                in_use = !socket::has_exited(socket::peer_of(probe.get(), api).process);  // mutant: ipc_stale
            } catch (error const& e) {
                in_use = e.code() != errc::exporter_gone;
            }
        }
        if (in_use)
            detail::fail(errc::argument, api,
                         message{to.sun_path} << " is served by another: choose another name, or close that server");
        if (::unlink(to.sun_path) != 0 && errno != ENOENT) fail_system(api, "removing a stale socket");
    }

    std::string path_;
    unique_fd socket_ = socket::make(api);
    process_mark process_ = process_mark::here();
    struct stat file_{};
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
