// What an attach costs: one that finds the mapping of its session, one that maps the memory, and one without a
// session, which also learns who this process is; against the system's own calls for the same memory; by turns, in one
// run. Each reads an element.
//
// usage: bench_ipc_attach [rounds]     prints a line for each: name, median seconds of ferry's, of the system's calls
#include <ferry/ipc.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

struct pixels {
    std::vector<float> values = std::vector<float>(1 << 18, 7.0f);
    std::array<std::int64_t, 1> extents{1 << 18};

    ferry::tensor_view ferry_view() { return {values.data(), {extents}}; }
    ferry::tensor_view ferry_view() const { return {values.data(), {extents}}; }
};

float volatile sink = 0;

template <class F>
double seconds_of(F f, int times) {
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

double median(std::vector<double>& s) {
    auto const middle = s.begin() + static_cast<std::ptrdiff_t>(s.size() / 2);
    std::nth_element(s.begin(), middle, s.end());
    return *middle;
}

template <class Ours, class Peer>
void report(char const* what, int rounds, Ours ours, Peer peer) {
    std::vector<double> mine, theirs;
    for (int i = 0; i < rounds; ++i) {
        mine.push_back(seconds_of(ours, 20));
        theirs.push_back(seconds_of(peer, 20));
    }
    std::printf("%s\t%.9g\t%.9g\n", what, median(mine), median(theirs));
}

}  // namespace

int main(int argc, char** argv) {
    int const rounds = argc > 1 ? std::atoi(argv[1]) : 501;
    ferry::ipc::session exporter, importer;  // two sessions: no alias, as if they were two processes
    auto const shared = ferry::ipc::share(pixels{}, {.session = &exporter});
    auto const& descriptor = shared.descriptor();
    auto const& memory = descriptor.memories[0];
    auto const read = [](ferry::managed_tensor const& t) { sink = *static_cast<float const*>(t.view().data()); };
    auto const by_hand = [&] {
        int const fd = shm_open(memory.name.c_str(), O_RDWR | O_CLOEXEC, 0);
        if (fd < 0) std::perror("shm_open"), std::exit(1);
        std::size_t const bytes = memory.offset + memory.length;
        void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) std::perror("mmap"), std::exit(1);
        close(fd);
        sink = *reinterpret_cast<float const*>(static_cast<std::byte const*>(at) + memory.offset);
        munmap(at, bytes);
    };
    report(
        "found in its session", rounds, [&] { read(ferry::ipc::attach(descriptor, {.session = &importer})); }, by_hand);
    ferry::ipc::session forgetful{{.unused_mappings = 0}};
    report(
        "mapped by its session", rounds, [&] { read(ferry::ipc::attach(descriptor, {.session = &forgetful})); },
        by_hand);
    report("mapped without a session", rounds, [&] { read(ferry::ipc::attach(descriptor)); }, by_hand);
}
