// Topics and registries when an allocation or a system call fails: nothing is lost, and the next call works.
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/registry.hpp>
#include <ferry/ipc/subscriber.hpp>

#include <support/allocation_failure.hpp>
#include <support/ipc.hpp>
#include <support/process.hpp>
#include <support/split_columns.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::own_directory;
namespace ipc = ferry::ipc;

namespace {

/// Counts the system calls of this thread that topics make, and makes one of them fail.
thread_local int calls = 0, failing_call = 0;
thread_local bool is_killed_by_it = false;
/// Called at the step with this number, if it is set: before a mutex is locked, or after a file is read.
thread_local int steps = 0, watched_step = 0;
std::function<void()> at_watched_step;
constinit std::atomic<int (*)(pthread_mutex_t*)> next_lock{nullptr};
void step() {
    if (watched_step != 0 && ++steps == watched_step) at_watched_step();
}

template <class... T>
long call_or_fail(long number, T... arguments) {
    if (failing_call != 0 && ++calls == failing_call) {
        if (is_killed_by_it) ::raise(SIGKILL);
        errno = ENOSPC;
        return -1;
    }
    return ::syscall(number, arguments...);
}

}  // namespace

extern "C" {
int openat(int folder, char const* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    unsigned const mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, unsigned) : 0;
    va_end(more);
    return static_cast<int>(call_or_fail(SYS_openat, folder, path, flags, mode));
}
int mkdirat(int folder, char const* path, mode_t mode) noexcept {
    return static_cast<int>(call_or_fail(SYS_mkdirat, folder, path, mode));
}
ssize_t pwrite(int file, void const* from, std::size_t bytes, off_t at) {
    return call_or_fail(SYS_pwrite64, file, from, bytes, at);
}
ssize_t pread(int file, void* to, std::size_t bytes, off_t at) {
    auto const n = call_or_fail(SYS_pread64, file, to, bytes, at);
    step();
    return n;
}
int linkat(int folder, char const* path, int other, char const* name, int flags) noexcept {
    return static_cast<int>(call_or_fail(SYS_linkat, folder, path, other, name, flags));
}
int renameat(int folder, char const* path, int other, char const* name) noexcept {
    return static_cast<int>(call_or_fail(SYS_renameat2, folder, path, other, name, 0));
}
int memfd_create(char const* name, unsigned flags) noexcept {
    return static_cast<int>(call_or_fail(SYS_memfd_create, name, flags));
}
/// Of ThreadSanitizer, which has to see each lock.
[[gnu::weak]] int __interceptor_pthread_mutex_lock(pthread_mutex_t*) noexcept;
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    // No static variable: libc++ locks a mutex to initialise one.
    auto next = next_lock.load(std::memory_order_relaxed);
    if (next == nullptr) {
        next = __interceptor_pthread_mutex_lock;
        if (next == nullptr)
            next = reinterpret_cast<int (*)(pthread_mutex_t*)>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
        next_lock.store(next, std::memory_order_relaxed);
    }
    step();
    return next(mutex);
}
int fchmod(int file, mode_t mode) noexcept { return static_cast<int>(call_or_fail(SYS_fchmod, file, mode)); }
}

namespace {

/// Runs `f(n)` with the n-th system call failing, for n = 1, 2, 3, …, until it makes fewer than n.
template <class F>
int for_each_failing_call(F f) {
    for (int n = 1;; ++n) {
        CAPTURE(n);
        auto const files = support::open_files();
        auto const segments = support::segments().size();
        calls = 0, failing_call = n;
        bool has_failed = false;
        try {
            f();
        } catch (ferry::error const&) {
            has_failed = true;
        }
        failing_call = 0;
        CHECK(support::open_files() == files);
        CHECK(support::segments().size() == segments);
        if (calls < n) {
            CHECK_FALSE(has_failed);
            return n - 1;
        }
        REQUIRE(n < 1000);
    }
}

/// Runs `f` in other processes, which are killed before their n-th system call, for n = 1, 2, 3, …, until one makes
/// fewer. Calls `after(n)` after each kill.
template <class F, class After>
int for_each_kill(F f, After after) {
    for (int n = 1;; ++n) {
        support::process other{[&](support::talk const&) {
            calls = 0, failing_call = n, is_killed_by_it = true;
            f();
            return 0;
        }};
        int const status = other.wait();
        CAPTURE(n);
        if (status == 0) return n - 1;
        REQUIRE(status == -SIGKILL);
        after(n);
        REQUIRE(n < 1000);
    }
}

bool works(own_directory const& here) {
    ipc::publisher camera{"camera", support::slots(2), here};
    ipc::subscriber left{"camera", here};
    auto const n = support::publish(camera);
    auto const f = left.next(support::patience);
    return f && f->generation == n && support::is_whole(f->value, n);
}

}  // namespace

TEST_CASE("topic: a failed system call of a publisher leaves its slots, and its next frame whole") {
    own_directory const here;
    std::vector<ipc::shared> mine = support::slots(2);
    int const failures = for_each_failing_call([&] {
        std::optional<ipc::publisher> camera;
        try {
            camera.emplace("camera", std::move(mine), here);
        } catch (...) {
            failing_call = 0;
            REQUIRE(mine.size() == 2);
            CHECK(mine[0].is_open());
            throw;
        }
        std::uint64_t last = 0;
        for (int i = 0; i < 3; ++i) try {
                if (auto const slot = camera->begin()) {
                    support::fill((*camera)[*slot], camera->generation() + 1);
                    last = camera->publish(*slot);
                }
            } catch (ferry::error const&) {
                failing_call = 0;
            }
        failing_call = 0;
        ipc::subscriber left{"camera", here};
        auto const f = left.next(0ms);
        CHECK(f.has_value());
        if (f) CHECK(support::is_whole(f->value, last));
        support::publish(*camera);
        CHECK(support::is_whole(left.next(support::patience)->value, camera->generation()));
        camera.reset();
        mine = support::slots(2);
    });
    CHECK(failures > 10);
    mine.clear();
    CHECK(works(here));
}

TEST_CASE("topic: after a failed system call a subscriber continues") {
    own_directory const here;
    ipc::publisher camera{"camera", support::slots(2), here};
    support::publish(camera);
    int const failures = for_each_failing_call([&] {
        ipc::subscriber left{"camera", here};
        std::optional<ipc::frame<ferry::managed_tensor>> f;
        for (int i = 0; i < 3 && !f; ++i) try {
                f = left.next(0ms);
            } catch (ferry::error const&) {
            }
        CHECK(f.has_value());
    });
    CHECK(failures > 5);
}

TEST_CASE("registry: a failed system call leaves the former entry") {
    own_directory const here;
    ipc::registry results{"results", {.names = here}};
    auto const find = [&] { return ipc::find_tensor("results", "slot", {}, ferry::host_only, here); };
    std::uint64_t value = 0;
    auto const put = [&](std::uint64_t next) {
        auto s = support::slot();
        support::fill(s, next);
        results.put("slot", std::move(s));
        value = next;
    };
    put(1);
    int const failures = for_each_failing_call([&] {
        try {
            put(value + 1);
        } catch (ferry::error const&) {
            failing_call = 0;
        }
        failing_call = 0;
        auto const found = find();
        CHECK(found.has_value());
        CHECK(support::is_whole(*found, value));
    });
    CHECK(failures > 3);
    CHECK(results.size() == 1);
    for_each_failing_call([&] { static_cast<void>(find()); });
}

TEST_CASE("topic: a failed allocation loses nothing, and the next call works") {
    own_directory const here;
    auto const directory = static_cast<ipc::topic_options>(here);
    CHECK(works(here));  // what is allocated once for the process
    int failures = support::for_each_failing_allocation([&](int) {
        std::vector<ipc::shared> mine = support::slots(2);
        ipc::publisher camera{"camera", std::move(mine), directory};
        if (auto const slot = camera.begin()) camera.publish(*slot);
    });
    CHECK(failures > 10);
    ipc::publisher camera{"camera", support::slots(2), here};
    support::publish(camera);
    failures = support::for_each_failing_allocation([&](int) {
        ipc::subscriber left{"camera", directory};
        if (!left.next(0ms)) throw ferry::error{ferry::errc::argument, "test", ferry::message{"no frame"}};
    });
    CHECK(failures > 5);
    auto const slot = camera.begin();
    auto fresh = support::slot();
    for (int n = 1; fresh; ++n) {
        support::allocation_window const window{n};
        try {
            camera.replace(*slot, std::move(fresh));
        } catch (std::bad_alloc const&) {
            ++failures;
        }
    }
    CHECK(failures > 6);
    camera.publish(*slot);
    CHECK(works(own_directory{}));
}

TEST_CASE("topic: a frame is whole, whatever the publisher does between two steps of a subscriber") {
    own_directory const here;
    ipc::publisher camera{"camera", support::slots(2), here};
    int frames = 0;
    for (bool const is_known : {false, true})  // its slots to the subscriber
        for (int at = 1; at == 1 || steps >= at - 1; ++at) {
            ipc::subscriber left{"camera", here};
            for (int i = 0; is_known && i < 2; ++i) {
                support::publish(camera);
                CHECK(left.next(support::patience));
            }
            support::publish(camera);
            std::optional<unsigned> taken;
            at_watched_step = [&] {
                watched_step = 0;  // the steps of this call are not counted
                support::publish(camera);
                taken = camera.begin();
                if (taken) support::fill(camera[*taken], 0);
                watched_step = at;
            };
            CAPTURE(at);
            steps = 0, watched_step = at;
            for (int i = 0; i < 3; ++i)
                if (auto const f = left.next(0ms)) {
                    CHECK(support::is_whole(f->value, f->generation));
                    ++frames;
                }
            watched_step = 0;
            if (taken) support::fill(camera[*taken], camera.generation() + 1), camera.publish(*taken);
        }
    CHECK(frames > 10);
}

TEST_CASE("topic: a frame is whole, also if the file grows between two steps of a subscriber") {
    own_directory const here;
    int frames = 0;
    bool was_watched = true;
    for (int at = 1; was_watched; ++at) {
        was_watched = false;
        ipc::publisher camera{"camera", support::slots(3), here};
        ipc::subscriber left{"camera", here};
        for (int i = 0; i < 3; ++i) {
            support::publish(camera);
            CHECK(left.next(support::patience));
        }
        support::publish(camera);
        at_watched_step = [&] {
            watched_step = 0, was_watched = true;
            auto const slot = camera.begin();
            if (!slot) return;
            camera.replace(*slot, ipc::share(support::wide_table(20)));
            camera.publish(*slot);
            support::publish(camera);
            if (auto const taken = camera.begin(); taken && taken != slot) support::fill(camera[*taken], 0);
        };
        steps = 0, watched_step = at;
        CAPTURE(at);
        auto const f = left.next(0ms);
        watched_step = 0;
        if (!f) continue;
        CHECK(support::is_whole(f->value, f->generation));
        ++frames;
    }
    CHECK(frames > 0);
}

TEST_CASE("topic: killed before any system call, a publisher leaves whole frames, and a name for the next") {
    own_directory const here;
    std::uint64_t seen = 0;
    ipc::subscriber left{"camera", here};
    auto const publish_three = [&] {
        ipc::publisher camera{"camera", support::slots(2), here};
        for (int i = 0; i < 3; ++i) support::publish(camera);
    };
    int const kills = for_each_kill(publish_three, [&](int) {
        CHECK_FALSE(left.next(0ms));  // the memory has gone with the publisher
        ipc::publisher next{"camera", support::slots(2), here};
        auto const n = support::publish(next);
        auto const f = left.next(support::patience);
        REQUIRE(f);
        CHECK(f->generation == n);
        CHECK(n > seen);
        CHECK(support::is_whole(f->value, n));
        seen = n;
    });
    CHECK(kills > 15);
    CHECK(works(here));
}

TEST_CASE("topic: killed before any system call, a subscriber leaves the slots to the publisher") {
    own_directory const here;
    ipc::publisher camera{"camera", support::slots(2), here};
    support::publish(camera);
    auto const read = [&] {
        ipc::subscriber left{"camera", here};
        auto const f = left.next(support::patience);
        if (!f || !support::is_whole(f->value, f->generation)) ::_exit(1);
    };
    int const kills = for_each_kill(read, [&](int) { support::publish(camera); });
    CHECK(kills > 5);
    CHECK(camera[0].readers() + camera[1].readers() == 0);
}
