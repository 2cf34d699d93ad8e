// Processes in other namespaces than their parent. No process ID and no start time identifies a process there.
#include <ferry/ipc.hpp>
#include <ferry/ipc/server.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/process.hpp>
#include <support/skip.hpp>

#include <doctest/doctest.h>

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

using ferry::ipc::attach;
using ferry::ipc::session;
using ferry::ipc::share;
using support::tensor;
using support::values;

namespace {

/// Runs `f` in a child made by clone(2), as the first process of new namespaces: its exit status (99: exception), or
/// 128 + the signal that ended it. It ends with its parent, and a hang ends it.
template <class F>
int in_namespace(int flags, F f) {
    auto const child = static_cast<pid_t>(::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::alarm(static_cast<unsigned>(std::chrono::seconds{support::patience}.count()));
        int status = 99;
        try {
            if ((flags & CLONE_NEWNS) == 0 || (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                                               ::mount("proc", "/proc", "proc", 0, nullptr) == 0))
                status = f();
        } catch (std::exception const& e) {
            std::fprintf(stderr, "in the namespace: %s\n", e.what());
        }
        ::_exit(status);
    }
    int status = 98 << 8;
    if (child > 0) ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a forked child with the process ID of its parent, in a pid namespace of its own, owns nothing of it" *
          doctest::skip(support::lacks_root())) {
    CHECK(in_namespace(CLONE_NEWPID | CLONE_NEWNS, [] {
              char folder[] = "/tmp/ferry-test-XXXXXX";
              if (::getpid() != 1 || ::mkdtemp(folder) == nullptr) return 1;
              auto const path = std::string{folder} + "/socket";
              session own;
              ferry::ipc::shared_space space{own};
              void* const memory = space.allocate(100);
              auto s = share(tensor({3}), {.session = &own});
              ferry::ipc::server server{path};
              server.start();
              auto const names = support::segments().size();
              int const status = in_namespace(CLONE_NEWPID, [&] {
                  if (::getpid() != 1) return 11;
                  space.deallocate(memory, 100);
                  s.close();
                  s = {};
                  own.close_all();
                  server.~server();  // does not wait for the thread of its parent
                  return 0;
              });
              if (status != 0) return status;
              if (support::segments().size() != names || ::access(path.c_str(), F_OK) != 0) return 2;
              if (values(attach(s.descriptor())).size() != 3) return 3;
              server.close();
              ::rmdir(folder);
              return 0;
          }) == 0);
}
