// The latency of a frame from one process to another: through the lifetime protocol, where the bytes stay in shared
// memory, and through a pipe, which copies them twice. One frame is in flight at a time; in turns, in one run. The
// consumer reads one byte of each page.
//
// usage: bench_ipc_lifetime [frames]     prints a line for each case: name, bytes, median µs one way, median µs there
// and back
#include <ferry/ipc/client.hpp>
#include <ferry/ipc/server.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;  // CLOCK_MONOTONIC: the same in both processes
using std::chrono::milliseconds;

std::int64_t now() { return std::chrono::nanoseconds{clock_type::now().time_since_epoch()}.count(); }

double median(std::vector<std::int64_t>& ns) {
    auto const middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
    std::nth_element(ns.begin(), middle, ns.end());
    return static_cast<double>(*middle) * 1e-3;
}

/// Reads a frame as a consumer would that looks at all of its pages.
std::int64_t touch(std::byte const* frame, std::size_t bytes) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < bytes; i += 4096) sum += std::to_integer<int>(frame[i]);
    return sum;
}
std::int64_t volatile sink = 0;

struct shared_times {
    std::int64_t seen[1 << 20];
};

void* map(int fd, std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) std::perror("mmap"), std::exit(1);
    return at;
}

void report(char const* what, std::size_t bytes, std::vector<std::int64_t>& there, std::vector<std::int64_t>& back) {
    std::printf("%s\t%zu\t%.2f\t%.2f\n", what, bytes, median(there), median(back));
    std::fflush(stdout);
}

[[noreturn]] void consume(std::string const& path, std::size_t bytes, int frames, shared_times* times) {
    ferry::ipc::client client{path};
    std::byte* mapped[3] = {};
    std::uint64_t seen = 0, lease = 0;
    for (int i = 0; i < frames;) {
        auto g = client.attach("frame", {.after = seen, .patience = milliseconds{1000}, .finished = lease});
        lease = 0;
        if (!g) continue;
        if (g->fresh) mapped[g->buffer] = static_cast<std::byte*>(map(g->fds[0].get(), bytes));
        times->seen[i++] = now();
        sink = touch(mapped[g->buffer], bytes);
        seen = g->generation;
        lease = g->lease;
    }
    client.acknowledge(lease);
    client.close();
    _exit(0);
}

void lifetime(std::size_t bytes, int frames, shared_times* times) {
    ferry::ipc::server server{"/tmp/ferry-bench-" + std::to_string(getpid()) + "/frames"};
    ferry::ipc::unique_fd fds[3];
    std::byte* buffers[3] = {};
    for (int b = 1; b < 3; ++b) {
        fds[b] = ferry::ipc::unique_fd{memfd_create("frame", MFD_CLOEXEC)};
        if (ftruncate(fds[b].get(), static_cast<off_t>(bytes)) != 0) std::exit(1);
        buffers[b] = static_cast<std::byte*>(map(fds[b].get(), bytes));
        std::memset(buffers[b], 1, bytes);
    }
    auto const child = fork();
    if (child == 0) consume(server.path(), bytes, frames, times);
    std::vector<std::int64_t> there, back;
    std::byte const descriptor[200] = {};
    for (int i = 0; i < frames; ++i) {
        while (server.counts().waiting == 0) server.poll(milliseconds{100});
        std::uint64_t const b = i % 2 == 0 ? 1 : 2;
        std::memset(buffers[b], i, 64);  // the producer's own work is not what is measured
        int const fd = fds[b].get();
        auto const begin = now();
        server.publish("frame", b, descriptor, std::span{&fd, 1});
        while (server.counts().leases != 0) server.poll(milliseconds{100});  // it has read the frame
        back.push_back(now() - begin);
        there.push_back(times->seen[i] - begin);
    }
    waitpid(child, nullptr, 0);
    server.close();
    for (int b = 1; b < 3; ++b) munmap(buffers[b], bytes);
    report("lifetime", bytes, there, back);
}

void transfer(int fd, std::byte* at, std::size_t bytes, bool out) {
    for (std::size_t done = 0; done < bytes;) {
        auto const n = out ? write(fd, at + done, bytes - done) : read(fd, at + done, bytes - done);
        if (n <= 0) std::perror("pipe"), _exit(1);
        done += static_cast<std::size_t>(n);
    }
}

void pipe_copy(std::size_t bytes, int frames, shared_times* times) {
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) std::exit(1);
    fcntl(down[1], F_SETPIPE_SZ, 1 << 20);
    std::vector<std::byte> frame(bytes, std::byte{1});
    auto const child = fork();
    if (child == 0) {
        for (int i = 0; i < frames; ++i) {
            transfer(down[0], frame.data(), bytes, false);
            times->seen[i] = now();
            sink = touch(frame.data(), bytes);
            transfer(up[1], frame.data(), 1, true);
        }
        _exit(0);
    }
    std::vector<std::int64_t> there, back;
    for (int i = 0; i < frames; ++i) {
        std::memset(frame.data(), i, 64);
        auto const begin = now();
        transfer(down[1], frame.data(), bytes, true);
        transfer(up[0], frame.data(), 1, false);
        back.push_back(now() - begin);
        there.push_back(times->seen[i] - begin);
    }
    waitpid(child, nullptr, 0);
    for (int const fd : {down[0], down[1], up[0], up[1]}) close(fd);
    report("pipe", bytes, there, back);
}

}  // namespace

int main(int argc, char** argv) {
    int const frames = std::clamp(argc > 1 ? std::atoi(argv[1]) : 3000, 10, 1 << 20);
    auto* const times = static_cast<shared_times*>(
        mmap(nullptr, sizeof(shared_times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (std::size_t const bytes : {std::size_t{4} << 10, std::size_t{256} << 10, std::size_t{4} << 20}) {
        lifetime(bytes, frames, times);
        pipe_copy(bytes, frames, times);
    }
    rmdir(("/tmp/ferry-bench-" + std::to_string(getpid())).c_str());
}
