#include <ferry/ipc/process.hpp>

#include <support/ipc.hpp>

#include <doctest/doctest.h>

#include <cstring>

#include <sys/resource.h>

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>

using ferry::ipc::has_ended;
using ferry::ipc::process_watch;
using ferry::ipc::this_process;

namespace {

ferry::ipc::detail::process_stat stat_of(pid_t pid) {
    ferry::ipc::detail::process_stat s;
    char text[1024];
    REQUIRE(ferry::ipc::detail::read_small(("/proc/" + std::to_string(pid) + "/stat").c_str(), text) > 0);
    REQUIRE(ferry::ipc::detail::parse_stat(text, s));
    return s;
}

}  // namespace

TEST_CASE("this process is running, and a forked child is a different process") {
    auto const me = this_process();
    CHECK(me.pid == static_cast<std::uint32_t>(getpid()));
    CHECK(me.start_time != 0);
    CHECK(me.pid_namespace != 0);
    CHECK(me.boot_id != ferry::wire::uuid{});
    CHECK(this_process() == me);
    CHECK_FALSE(has_ended(me.pid, me.start_time));
    CHECK(support::in_child([&] {
              return this_process() == me ? 1 : this_process().boot_id == me.boot_id ? 0 : 2;
          }) == 0);
}

TEST_CASE("without file descriptors the error says so, and does not ask to mount /proc") {
    CHECK(support::in_child([] {
              rlimit const none{3, 3};
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              try {
                  static_cast<void>(this_process());
              } catch (ferry::error const& e) {
                  return e.code() == ferry::errc::out_of_memory && std::strstr(e.what(), "ulimit") != nullptr ? 0 : 2;
              }
              return 3;
          }) == 0);
}

TEST_CASE("a process whose ID is unused, or reused, has ended") {
    auto const me = this_process();
    CHECK(has_ended(me.pid, me.start_time + 1));
    CHECK(has_ended(me.pid, me.start_time - 1));
    CHECK(has_ended(0, 0));
    CHECK(has_ended((1u << 22) + 1, 1));
}

TEST_CASE("a killed process has ended before its parent has waited for it") {
    pid_t const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        for (;;) pause();
    }
    auto const pid = static_cast<std::uint32_t>(child);
    auto const start = stat_of(child).start_time;
    process_watch const watch{pid, start}, late{pid, start + 1};
    CHECK_FALSE(has_ended(pid, start));
    CHECK_FALSE(watch.has_ended());
    CHECK(late.has_ended());
    kill(child, SIGSTOP);
    CHECK_FALSE(has_ended(pid, start));  // stopped is not ended
    kill(child, SIGKILL);
    siginfo_t ended;
    waitid(P_PID, pid, &ended, WEXITED | WNOWAIT);
    CHECK(has_ended(pid, start));
    CHECK(watch.has_ended());
    waitpid(child, nullptr, 0);
    CHECK(has_ended(pid, start));
    CHECK(watch.has_ended());
}

TEST_CASE("a process whose main thread has exited while others run has not ended") {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_t const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        std::thread{[&] {
            while (stat_of(getpid()).state != 'Z') std::this_thread::yield();
            char const c = 'z';
            static_cast<void>(!write(ready[1], &c, 1));
            for (;;) pause();
        }}.detach();
        syscall(SYS_exit, 0);  // ends this thread only
    }
    close(ready[1]);
    char c = 0;
    REQUIRE(read(ready[0], &c, 1) == 1);
    auto const s = stat_of(child);
    CHECK(s.state == 'Z');
    CHECK_FALSE(has_ended(static_cast<std::uint32_t>(child), s.start_time));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
}

TEST_CASE("the name of a process may contain any character") {
    ferry::ipc::detail::process_stat s;
    CHECK(
        ferry::ipc::detail::parse_stat("7 (a) b) R 1 2) Z 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 1 2", s));
    CHECK(s.state == 'Z');
    CHECK(s.threads == 3);
    CHECK(s.start_time == 987654);
    for (auto const* text :
         {"", "7", "7 (a", "7 (a)", "7 (a) Z", "7 (a) Z 1 2 3", "7 (a) Z 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3",
          "7 (a) Z 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 x 0 9"})
        CHECK_FALSE(ferry::ipc::detail::parse_stat(text, s));
}
