// Publishes frames of a camera and a table of results under names; another process reads both in place.
#include <ferry/column.hpp>
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/registry.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/subscriber.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

namespace {

using ferry::ipc::share;
using std::chrono::minutes;

constexpr std::uint64_t frames = 200;
constexpr std::size_t pixels = 100'000;  // the first is a checksum of the others

/// An array with a member function ferry_view, which ferry calls.
struct slot {
    std::vector<std::uint32_t> values = std::vector<std::uint32_t>(pixels);
    std::array<std::int64_t, 1> extents{static_cast<std::int64_t>(pixels)};

    ferry::tensor_view ferry_view() { return {values.data(), {extents}}; }
    ferry::tensor_view ferry_view() const { return {values.data(), {extents}}; }
};

template <class Pixels>
std::uint32_t checksum(Pixels const& p) {
    std::uint32_t sum = 0;
    for (std::int64_t i = 1; i < p.extent(0); ++i) sum = 31 * sum + p(i);
    return sum;
}

void fill(ferry::managed_tensor const& t, std::uint32_t n) {
    auto const p = t.as<std::uint32_t, 1>();
    for (std::int64_t i = 1; i < p.extent(0); ++i) p(i) = n + static_cast<std::uint32_t>(i);
    p(0) = checksum(p);
}

bool is_whole(ferry::managed_tensor const& t) {
    auto const p = t.as<std::uint32_t const, 1>();
    return p(0) == checksum(p);
}

/// A table with a column of doubles.
ferry::column make_table() {
    // [table]
    auto const scores = std::make_shared<std::vector<double> const>(std::vector{0.25, 0.5, 0.75});
    ferry::column_buffer const buffers[] = {{}, {scores->data(), 24}};
    ferry::column const children[] = {ferry::make_column({.format = "g", .name = "score", .length = 3, .buffers = buffers}, scores)};
    ferry::column table = ferry::make_struct(children);
    // [/table]
    return table;
}

int reader(int ready) {
    std::uint64_t seen = 0, read = 0, torn = 0;
    // [subscriber]
    ferry::ipc::subscriber left{"rig/left"};  // before or after its publisher begins
    while (seen < frames) {
        auto const frame = left.next(minutes{1});
        if (!frame) break;                // none within a minute
        torn += !is_whole(frame->value);  // the slot is not written while frame->value exists
        seen = frame->generation;         // increases; missing numbers are missed frames
        ++read;
    }
    // [/subscriber]
    std::printf("the reader saw %llu of %llu frames\n", static_cast<unsigned long long>(read), static_cast<unsigned long long>(frames));
    char c = 0;
    if (::read(ready, &c, 1) != 1) return 1;
    // [find]
    auto const found = ferry::ipc::find_column("results", "scores/2026-11");  // empty: no such entry
    // [/find]
    return seen == frames && torn == 0 && found && found->length() == 3 && found->child_count() == 1 ? 0 : 1;
}

}  // namespace

int main() {
    // The names of this program lie in a directory of its own. Without XDG_RUNTIME_DIR, names are in /dev/shm/ferry-<uid>.
    char folder[] = "/dev/shm/ferry-example-XXXXXX";
    int ready[2];
    if (mkdtemp(folder) == nullptr || setenv("XDG_RUNTIME_DIR", folder, 1) != 0 || pipe(ready) != 0) return 1;
    auto const child = fork();
    if (child == 0) return reader(ready[0]);

    std::uint64_t published = 0;
    int status = 1;
    {
        auto const table = make_table();
        // [registry]
        ferry::ipc::registry results{"results", {.most_bytes = 8'000'000'000}};
        results.put("scores/2026-11", table);  // shared until it is replaced, dropped, or evicted for newer entries
        // [/registry]
        if (write(ready[1], "r", 1) != 1) return 1;
        // [publisher]
        ferry::ipc::publisher camera{"rig/left", {share(slot{}), share(slot{}), share(slot{})}};
        for (std::uint32_t n = 1; n <= frames; ++n) {
            auto const k = camera.begin(minutes{1});  // a slot that is neither the newest nor read
            if (!k) break;                            // readers have all slots
            fill(camera[*k].tensor(), n);
            published = camera.publish(*k);  // atomic; the generation of the frame
        }
        // [/publisher]
        if (wait(&status) != child) return 1;
    }
    std::filesystem::remove_all(folder);
    return published == frames && status == 0 ? 0 : 1;
}
