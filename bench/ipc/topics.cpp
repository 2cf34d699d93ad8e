// The time from the publication of a frame to its readers, each in a process of its own: by a topic, and by a C program
// that shares memory and a futex, without names, checks or locks. By turns, in one run. One frame is in flight at a
// time. The time ends when the reader has the tensor; it then reads one byte of each page.
//
// usage: bench_ipc_topics [frames]     prints a line for each case: name, readers, bytes, median µs, 99th percentile of
// the µs, median µs of `publish`, median µs of `begin`
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/subscriber.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <linux/futex.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

constexpr int most_readers = 64, slots = 3, warm_up = 10;
constexpr std::chrono::minutes patience{1};

std::int64_t now() {  // CLOCK_MONOTONIC: the same in all processes
    return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

/// What the processes of a case share.
struct board {
    std::atomic<std::uint32_t> newest;  // of the C program: number of the newest frame
    std::atomic<int> left;              // readers that have not finished the newest frame
    std::int64_t seen[most_readers];    // when each had it
};

template <class T>
T* share_pages(std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) std::perror("mmap"), std::exit(1);
    return static_cast<T*>(at);
}

std::int64_t volatile sink = 0;
void touch(void const* frame, std::size_t bytes) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < bytes; i += 4096) sum += static_cast<unsigned char const*>(frame)[i];
    sink = sum;
}

struct samples {
    std::vector<std::int64_t> arrival, publish, begin;
};
double quantile(std::vector<std::int64_t>& ns, double q) {
    if (ns.empty()) return 0;
    auto const at = ns.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(ns.size() - 1));
    std::nth_element(ns.begin(), at, ns.end());
    return static_cast<double>(*at) * 1e-3;
}
void report(char const* what, int readers, std::size_t bytes, samples s) {
    std::printf("%s\t%d\t%zu\t%.2f\t%.2f\t%.2f\t%.2f\n", what, readers, bytes, quantile(s.arrival, 0.5),
                quantile(s.arrival, 0.99), quantile(s.publish, 0.5), quantile(s.begin, 0.5));
    std::fflush(stdout);
}

/// Starts processes that run `read(board, reader, done)` for each frame, and publishes frames to them.
template <class Read, class Begin, class Publish>
void publish_to(int readers, int frames, board* b, Read read, Begin begin, Publish publish, samples& out) {
    int done[2];
    if (pipe(done) != 0) std::exit(1);
    for (int r = 0; r < readers; ++r)
        if (fork() == 0) {
            close(done[0]);
            read(frames, [&, r](auto&& touch_it) {
                b->seen[r] = now();
                touch_it();
                if (b->left.fetch_sub(1) == 1 && write(done[1], "d", 1) != 1) _exit(1);
            });
            _exit(0);
        }
    close(done[1]);
    for (int i = 0; i < frames; ++i) {
        if (readers != 0) usleep(100);  // they wait again
        b->left = readers;
        auto const t0 = now();
        auto const k = begin();
        auto const t1 = now();
        publish(k, i);
        auto const t2 = now();
        char c = 0;
        if (readers != 0 && ::read(done[0], &c, 1) != 1) std::fprintf(stderr, "a reader has ended\n"), std::exit(1);
        if (i < warm_up) continue;  // the readers map the slots
        out.begin.push_back(t1 - t0);
        out.publish.push_back(t2 - t1);
        for (int r = 0; r < readers; ++r) out.arrival.push_back(b->seen[r] - t1);
    }
    close(done[0]);
    while (wait(nullptr) > 0) {
    }
}

void by_topic(std::string const& directory, int readers, std::size_t bytes, int frames, board* b, samples& out) {
    ferry::ipc::topic_options const how{.directory = directory};
    std::vector<ferry::ipc::shared> shares;
    std::int64_t const shape[] = {static_cast<std::int64_t>(bytes)};
    for (int i = 0; i < slots; ++i)
        shares.push_back(ferry::ipc::share(ferry::make_managed(
            std::vector<std::uint8_t>(bytes, 1), [&](auto& v) { return ferry::tensor_view{v.data(), {shape}}; })));
    ferry::ipc::publisher camera{"frame", std::move(shares), how};
    publish_to(
        readers, frames, b,
        [&](int n, auto arrived) {
            ferry::ipc::subscriber frame{"frame", how};
            for (int i = 0; i < n; ++i) {
                auto const f = frame.next(patience);
                if (!f) _exit(1);
                arrived([&] { touch(f->value.view().data(), bytes); });
            }
        },
        [&] { return camera.begin(patience).value(); }, [&](unsigned k, int) { camera.publish(k); }, out);
}

void by_futex(int readers, std::size_t bytes, int frames, board* b, samples& out) {
    auto* const memory = share_pages<unsigned char>(slots * bytes);
    auto const futex = [b](int operation, std::uint32_t value) {
        syscall(SYS_futex, &b->newest, operation, value, nullptr, nullptr, 0);
    };
    b->newest = 0;
    publish_to(
        readers, frames, b,
        [&](int n, auto arrived) {
            for (std::uint32_t seen = 0; seen < static_cast<std::uint32_t>(n); ++seen) {
                while (b->newest == seen) futex(FUTEX_WAIT, seen);
                arrived([&] { touch(memory + seen % slots * bytes, bytes); });
            }
        },
        [] { return 0; },
        [&](int, int i) {
            b->newest = static_cast<std::uint32_t>(i + 1);
            futex(FUTEX_WAKE, INT32_MAX);
        },
        out);
    munmap(memory, slots * bytes);
}

}  // namespace

int main(int argc, char** argv) {
    int const frames = std::clamp(argc > 1 ? std::atoi(argv[1]) : 1000, 50, 100'000);
    char directory[] = "/dev/shm/ferry-bench-XXXXXX";
    if (mkdtemp(directory) == nullptr) return 1;
    auto* const b = share_pages<board>(sizeof(board));
    samples alone;
    by_topic(directory, 0, 65536, frames, b, alone);
    report("topic", 0, 65536, std::move(alone));
    for (int const readers : {1, 4, most_readers})
        for (std::size_t const bytes : {std::size_t{64} << 10, std::size_t{8} << 20}) {
            samples topic, futex;
            for (int round = 0; round < 4; ++round) {
                by_topic(directory, readers, bytes, frames / 4 + warm_up, b, topic);
                by_futex(readers, bytes, frames / 4 + warm_up, b, futex);
            }
            report("topic", readers, bytes, std::move(topic));
            report("futex", readers, bytes, std::move(futex));
        }
    std::filesystem::remove_all(directory);
}
