// Sharing when memory, file descriptors or the size of files run out.
#include <ferry/ipc.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/own_shm.hpp>
#include <support/process.hpp>
#include <support/skip.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using ferry::errc;
using ferry::ipc::attach;
using ferry::ipc::segment_kind;
using ferry::ipc::session;
using ferry::ipc::share;
using support::tensor;
using support::values;

namespace {

bool lacks_small_shm() {
    return support::lacks(support::in_child([] { return support::mount_own_shm("tmpfs", "size=1m") ? 0 : 1; }) == 0,
                          "no mount namespace of one's own, for a /dev/shm that may fill up");
}

/// Leaves the name of a share of `bytes` bytes, whose exporter is killed.
void leave_name(std::int64_t bytes) {
    support::process exporter{[&](support::talk to) {
        auto const s = share(tensor({bytes / 4}));
        to.say();
        return static_cast<int>(to.hear());
    }};
    if (exporter.hear() != '.') ::_exit(50);
    exporter.kill(SIGKILL);
    static_cast<void>(exporter.wait());
}

/// Files of another user, with names like those of segments.
class foreign_names {
   public:
    explicit foreign_names(int count) {
        auto const prefix = "/dev/shm/ferry-" + std::to_string(::geteuid()) + "-1-1-";
        for (int i = 1; i <= count; ++i) {
            auto& path = paths_.emplace_back(prefix + std::to_string(i));
            int const file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
            if (file < 0 || ::fchown(file, 65534, 65534) != 0 || ::close(file) != 0) ::_exit(51);
        }
    }
    foreign_names(foreign_names const&) = delete;
    foreign_names& operator=(foreign_names const&) = delete;
    ~foreign_names() {
        for (auto const& path : paths_) ::unlink(path.c_str());
    }

   private:
    std::vector<std::string> paths_;
};

}  // namespace

TEST_CASE("an exporter whose /dev/shm is full removes the names of exporters that were killed since it started" *
          doctest::skip(lacks_small_shm())) {
    CHECK(support::in_child([] {
              if (!support::mount_own_shm("tmpfs", "size=1m")) return 1;
              session own;
              ferry::ipc::shared_space space{own};
              auto const first = share(tensor({3}), {.session = &own});  // removes what has been left until now
              leave_name(600'000);
              void* const allocated = space.allocate(600'000);
              space.deallocate(allocated, 600'000);
              leave_name(600'000);
              auto const second = share(tensor({150'000}), {.session = &own});
              if (support::segments().size() != 2) return 2;
              try {
                  static_cast<void>(space.allocate(600'000));
              } catch (ferry::error const& e) {
                  return e.code() == errc::out_of_memory ? 0 : 3;
              }
              return 4;
          }) == 0);
}

TEST_CASE("unused mappings of closed shares are dropped when /dev/shm is full" * doctest::skip(lacks_small_shm())) {
    CHECK(support::in_child([] {
              if (!support::mount_own_shm("tmpfs", "size=1m")) return 1;
              session own, other;
              ferry::ipc::shared_space space{own};
              auto s = share(tensor({150'000}), {.session = &other});
              static_cast<void>(attach(s.descriptor(), {.session = &own}));
              s = {};
              if (own.counts().unused != 1) return 2;
              space.deallocate(space.allocate(600'000), 600'000);
              return own.counts().unused == 0 ? 0 : 3;
          }) == 0);
}

TEST_CASE("session::collect removes the names of exporters that were killed since the session began") {
    session own;
    auto const first = share(tensor({3}), {.session = &own});
    auto const names = support::segments().size();
    leave_name(12);
    auto const second = share(tensor({3}), {.session = &own});
    CHECK(support::segments().size() == names + 2);
    CHECK(own.collect() == 0);
    CHECK(support::segments().size() == names + 1);
}

TEST_CASE("the work to find left names is bounded, whatever files another user has made, and continues later" *
          doctest::skip(support::lacks_root())) {
    long from = 0;
    ferry::ipc::detail::sweep(from);
    leave_name(12);
    foreign_names const foreign{10'000};
    leave_name(16);  // removes nothing that it does not reach
    auto const names = support::segments().size();
    long at = 0;
    std::size_t removed = ferry::ipc::detail::sweep(at);
    CHECK(at != 0);
    removed += ferry::ipc::detail::sweep(at);
    CHECK(at == 0);
    CHECK(removed >= 1);
    CHECK(support::segments().size() == names - removed);

    leave_name(12);
    {
        session own;
        for (int i = 0; i < 2; ++i) CHECK(own.collect() == 0);
    }
    CHECK(support::segments().size() == names - removed);
}

TEST_CASE("a session keeps unused mappings of closed shares, up to its bound, only until the next release") {
    session exporter, importer;
    auto const used = share(tensor({3}), {.session = &exporter}), unused = share(tensor({3}), {.session = &exporter});
    auto const read = [&](ferry::ipc::shared const& s) {
        static_cast<void>(attach(s.descriptor(), {.session = &importer}));
    };
    auto const mapped = support::mapped_segments();
    std::vector<ferry::ipc::shared> all;
    for (int i = 0; i < 70; ++i) all.push_back(share(tensor({1000}), {.session = &exporter}));
    for (auto const& s : all) read(s);
    read(unused);
    read(used);
    all.clear();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});  // nothing runs in the importer
    CHECK(importer.counts().unused == 64);
    CHECK(support::mapped_segments() == mapped + 64);
    read(used);
    CHECK(importer.counts().unused == 2);
    CHECK(support::mapped_segments() == mapped + 2);
    auto s = share(tensor({3}), {.session = &exporter});
    read(s);
    s = {};
    CHECK(importer.counts().unused == 3);
    static_cast<void>(importer.collect());
    CHECK(importer.counts().unused == 2);
}

TEST_CASE("with few file descriptors, unused mappings are dropped, and what failed is tried again") {
    for (auto const kind : {segment_kind::named, segment_kind::anonymous}) {
        CAPTURE(static_cast<int>(kind));
        session exporter{{.segments = kind}};
        std::vector<ferry::ipc::shared> all;
        for (int i = 0; i < 40; ++i) all.push_back(share(tensor({3}), {.session = &exporter}));
        CHECK(support::in_child([&] {
                  session own{{.segments = kind}};
                  auto const mine = share(tensor({5}), {.session = &own});
                  auto const attached = [&](ferry::ipc::shared const& s) {
                      int const file = s.file();
                      return attach(s.descriptor(), {.session = &own, .files = {&file, 1}});
                  };
                  rlimit few{};
                  ::getrlimit(RLIMIT_NOFILE, &few);
                  few.rlim_cur = support::open_files() + 8;
                  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
                  // Until unused mappings have all file descriptors.
                  auto const fill = [&] {
                      for (auto const& s : all)
                          if (values(attached(s)) != std::vector<float>{0, 1, 2}) return false;
                      return own.counts().unused > 0;
                  };
                  if (!fill()) return 2;
                  auto const copy = share(tensor({4}), {.session = &own});
                  if (!fill()) return 3;
                  ferry::ipc::shared_space space{own};
                  space.deallocate(space.allocate(10), 10);
                  if (!fill()) return 4;
                  if (kind == segment_kind::anonymous) {
                      auto const frozen = share(mine.tensor(), {.session = &own, .freeze = true});
                      if (!own.sealed(frozen.view())) return 5;
                  }
                  std::vector<ferry::managed_tensor> kept;
                  try {
                      for (auto const& s : all) kept.push_back(attached(s));
                  } catch (ferry::error const& e) {
                      return e.code() == errc::out_of_memory ? 0 : 6;
                  }
                  return 7;
              }) == 0);
    }
}

TEST_CASE("a limit of the size of files is an error, and does not end the process") {
    for (auto const kind : {segment_kind::named, segment_kind::anonymous}) {
        CAPTURE(static_cast<int>(kind));
        CHECK(support::in_child([&] {
                  rlimit const small{1 << 20, 1 << 20};
                  if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return 1;
                  session own{{.segments = kind}};
                  auto const fits = share(tensor({1000}), {.session = &own});
                  auto t = tensor({1 << 20});
                  try {
                      static_cast<void>(share(std::move(t), {.session = &own}));
                  } catch (ferry::error const& e) {
                      bool const is_clear = std::string{e.what()}.find("ulimit -f") != std::string::npos;
                      return e.code() == errc::out_of_memory && is_clear && values(t).size() == 1 << 20 ? 0 : 2;
                  }
                  return 3;
              }) == 0);
    }
}
