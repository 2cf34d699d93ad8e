#include <ferry/ipc/detail/process.hpp>

#include <support/ipc.hpp>

#include <doctest/doctest.h>

#include <cstring>

#include <sys/resource.h>

#include <unistd.h>

#include <cstdint>

using ferry::ipc::detail::process_mark;
using ferry::ipc::detail::this_process;

TEST_CASE("this process is running, and a forked child is a different process") {
    auto const me = this_process();
    CHECK(me.pid == static_cast<std::uint32_t>(getpid()));
    CHECK(me.pid_namespace != 0);
    CHECK(me.boot_id != ferry::wire::uuid{});
    CHECK(this_process() == me);
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

TEST_CASE("a mark is that of this process, and of no forked child; forks are counted") {
    auto const mine = process_mark::here();
    auto const forks = ferry::ipc::detail::forks();
    CHECK(mine.is_here());
    CHECK(process_mark::here().is_here());
    CHECK_FALSE(process_mark{}.is_here());
    CHECK(support::in_child([&] {
              if (mine.is_here() || !process_mark::here().is_here() || mine.is_here()) return 1;
              auto const other = process_mark::here();
              return support::in_child([&] { return mine.is_here() || other.is_here() ? 2 : 0; });
          }) == 0);
    CHECK(mine.is_here());
    CHECK(ferry::ipc::detail::forks() != forks);
}
