// Processes in other namespaces than their parent. No process ID and no start time identifies a process there.
#include <ferry/ipc.hpp>
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/send.hpp>
#include <ferry/ipc/subscriber.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/process.hpp>
#include <support/skip.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

using ferry::ipc::attach;
using ferry::ipc::session;
using ferry::ipc::share;
using support::tensor;
using support::values;

namespace {

/// Runs `f` as the first process of new namespaces: its exit status (98: there are none, 99: exception), or 128 + the
/// signal that ended it. It ends with its parent, and a hang ends it. The process that makes the namespaces stays in
/// its own.
template <class F>
int in_namespace(int flags, F f) {
    return support::in_child([&] {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::unshare(flags) != 0) return 98;
        return support::in_child([&] {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::alarm(static_cast<unsigned>(std::chrono::seconds{support::patience}.count()));
            if ((flags & CLONE_NEWNS) != 0 && (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                                               ::mount("proc", "/proc", "proc", 0, nullptr) != 0))
                return 98;
            return static_cast<int>(f());
        });
    });
}

}  // namespace

TEST_CASE("a forked child with the process ID of its parent, in a pid namespace of its own, owns nothing of it" *
          doctest::skip(support::lacks_namespaces())) {
    CHECK(in_namespace(CLONE_NEWPID | CLONE_NEWNS, [] {
              if (::getpid() != 1) return 1;
              session own;
              ferry::ipc::shared_space space{own};
              void* const memory = space.allocate(100);
              auto s = share(tensor({3}), {.session = &own});
              session importer;
              auto a = attach(s.descriptor(), {.session = &importer});
              auto const names = support::segments().size();
              int const status = in_namespace(CLONE_NEWPID, [&] {
                  if (::getpid() != 1) return 11;
                  a = {};
                  space.deallocate(memory, 100);
                  s.close();
                  s = {};
                  own.close_all();
                  return 0;
              });
              if (status != 0) return status;
              if (support::segments().size() != names) return 2;
              if (values(attach(s.descriptor())).size() != 3) return 3;
              if (s.readers() != 1) return 4;
              return 0;
          }) == 0);
}

TEST_CASE("a child made by clone(2), which calls no handler of fork, subtracts no reader of its parent") {
    session own, importer;
    auto const s = share(tensor({3}), {.session = &own});
    auto a = attach(s.descriptor(), {.session = &importer});
    auto const child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
        a = {};
        ::_exit(0);
    }
    int status = 1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(s.readers() == 1);
}

TEST_CASE("the next exporter removes the names of ended ones in other pid namespaces" *
          doctest::skip(support::lacks_namespaces())) {
    auto const kept = share(tensor({3}));
    auto const names = support::segments().size();
    CHECK(in_namespace(CLONE_NEWPID | CLONE_NEWNS, [] {
              new ferry::ipc::shared{share(tensor({1000}))};  // process 1 cannot kill itself; it ends without closing
              return 0;
          }) == 0);
    CHECK(support::segments().size() == names + 1);
    {
        auto const next = share(tensor({3}));
        CHECK(support::segments().size() == names + 1);
    }
    CHECK(support::segments().size() == names);
    CHECK(values(attach(kept.descriptor())).size() == 3);
}

TEST_CASE("the next exporter removes the names of killed ones, from pid namespaces that are siblings" *
          doctest::skip(support::lacks_namespaces())) {
    auto const names = support::segments().size();
    for (int i = 0; i < 12; ++i)
        CHECK(in_namespace(CLONE_NEWPID | CLONE_NEWNS, [] {
                  support::process exporter{[](support::talk to) {
                      new ferry::ipc::shared{share(tensor({1000}))};
                      to.say();
                      return static_cast<int>(to.hear());
                  }};
                  if (exporter.hear() != '.') return 1;
                  exporter.kill(SIGKILL);
                  return exporter.wait() == -SIGKILL ? 0 : 2;
              }) == 0);
    CHECK(support::segments().size() == names + 1);  // each exporter has removed that of the one before it
    CHECK(in_namespace(CLONE_NEWPID | CLONE_NEWNS, [] {
              auto const next = share(tensor({3}));
              return 0;
          }) == 0);
    CHECK(support::segments().size() == names);
}

TEST_CASE("an exporter in another time namespace removes no name of a running one, and both attach" *
          doctest::skip(support::lacks_time_namespaces())) {
    auto const s = share(tensor({3}));
    CHECK(support::in_child([&] {
              constexpr int new_time = 0x80;  // CLONE_NEWTIME
              std::ofstream offsets;
              if (::unshare(new_time) != 0) return 1;
              offsets.open("/proc/self/timens_offsets");
              offsets << "boottime 1000000 0" << std::endl;
              if (!offsets) return 2;
              return support::in_child([&] {  // the first process of the namespace
                  auto const mine = share(tensor({4}));
                  if (support::segments().size() < 2) return 3;
                  return values(attach(s.descriptor())).size() == 3 ? 0 : 4;
              });
          }) == 0);
    CHECK(values(attach(s.descriptor())).size() == 3);
}

TEST_CASE("an importer with another /dev/shm gets an error that says so" * doctest::skip(support::lacks_namespaces())) {
    auto s = share(tensor({3}));
    auto const attach_in = [&](bool is_private, char const* text) {
        return in_namespace(CLONE_NEWPID | CLONE_NEWNS, [&] {
            if (is_private && ::mount("private", "/dev/shm", "tmpfs", 0, "") != 0) return 1;
            try {
                static_cast<void>(attach(s.descriptor()));
            } catch (ferry::error const& e) {
                return std::strstr(e.what(), text) != nullptr ? 100 + static_cast<int>(e.code()) : 3;
            }
            return 2;
        });
    };
    CHECK(attach_in(false, "") == 2);
    CHECK(attach_in(true, " is in another /dev/shm: use one for both containers (docker run --ipc)") ==
          100 + static_cast<int>(ferry::errc::unsupported_platform));
    s.close();
    CHECK(attach_in(false, "its exporter has closed it") == 100 + static_cast<int>(ferry::errc::exporter_gone));
}

namespace {

/// Reads frames in other namespaces, with another /dev/shm, where only the socket of the publisher is available.
int read_in_container(int socket) {
    return in_namespace(CLONE_NEWPID | CLONE_NEWNS, [&] {
        using std::chrono::minutes;
        if (::mount("private", "/dev/shm", "tmpfs", 0, "") != 0) return 1;
        int read = 0;
        // [receive files]
        auto received = ferry::ipc::receive(socket, {.patience = minutes{1}});
        ferry::ipc::subscriber camera{std::move(received.files)};
        // [/receive files]
        while (auto const frame = camera.next(minutes{1})) {
            if (!support::is_whole(frame->value, frame->generation)) return 2;
            if (++read == 200) return support::segments().empty() ? 0 : 3;
        }
        return 4;
    });
}

}  // namespace

TEST_CASE("topic: frames in anonymous segments are read in other mount and pid namespaces, with another /dev/shm" *
          doctest::skip(support::lacks_namespaces())) {
    using ferry::ipc::unique_fd;
    using std::chrono::minutes;
    using support::slots;
    std::array<unique_fd, 2> sockets, ends;
    for (auto const& [i, type] : {std::pair{0u, SOCK_STREAM}, {1u, SOCK_SEQPACKET}}) {
        int both[2];
        REQUIRE(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both) == 0);
        sockets[i] = unique_fd{both[0]}, ends[i] = unique_fd{both[1]};
    }
    auto const named = support::segments().size();
    // Before the publisher, of which they inherit nothing.
    support::process one{[&](support::talk) { return read_in_container(ends[0].get()); }};
    support::process other{[&](support::talk) { return read_in_container(ends[1].get()); }};
    // [send files]
    ferry::ipc::session session{{.segments = ferry::ipc::segment_kind::anonymous}};
    ferry::ipc::publisher camera{"", slots(4, &session)};  // shares of the session
    for (auto const& socket : sockets)                     // once for each process
        ferry::ipc::send(socket.get(), {}, camera.files(), {.patience = minutes{1}});
    // [/send files]
    CHECK(camera.files().size() == 5);
    CHECK(support::segments().size() == named);
    std::atomic<bool> is_done = false;
    std::thread waiter{[&] {
        static_cast<void>(one.wait());
        static_cast<void>(other.wait());
        is_done = true;
    }};
    while (!is_done) support::publish(camera);
    waiter.join();
    CHECK(one.wait() == 0);
    CHECK(other.wait() == 0);
    for (auto const& s : {0u, 1u, 2u, 3u}) CHECK(camera[s].readers() == 0);
}
