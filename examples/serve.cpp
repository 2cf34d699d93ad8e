// Publishes frames under a name: readers map the newest frame, and a slot is written again when no reader uses it.
#include <ferry/ipc.hpp>
#include <ferry/ipc/client.hpp>
#include <ferry/ipc/server.hpp>
#include <ferry/wire/binary.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t frames = 200;
constexpr std::size_t pixels = 100'000;

int reader(std::string const& where) {
    std::uint64_t seen = 0, read = 0, torn = 0;
    // [client]
    ferry::ipc::client client{where};
    ferry::ipc::session session;  // keeps the mapping of each slot
    while (seen < frames) {
        auto const frame = client.attach("camera", {.after = seen, .patience = std::chrono::seconds{5}});
        if (!frame) break;  // no newer frame within 5 s
        {
            int const file = frame->fds.at(0).get();
            auto const t = ferry::ipc::attach(ferry::wire::from_bytes(frame->descriptor), {.session = &session, .files = {&file, 1}});
            auto const view = t.as<float const, 1>();
            for (std::int64_t i = 0; i < view.extent(0); ++i) torn += view(i) != static_cast<float>(frame->generation);
        }
        client.acknowledge(frame->lease);  // ends the lease: the slot may be written again
        seen = frame->generation;
        ++read;
    }
    // [/client]
    std::printf("a reader saw %llu of %llu frames\n", static_cast<unsigned long long>(read), static_cast<unsigned long long>(frames));
    return seen == frames && torn == 0 ? 0 : 1;
}

/// An array with a member function ferry_view, which ferry calls.
struct slot {
    std::vector<float> values = std::vector<float>(pixels);
    std::array<std::int64_t, 1> extents{static_cast<std::int64_t>(pixels)};

    ferry::tensor_view ferry_view() { return {values.data(), {extents}}; }
    ferry::tensor_view ferry_view() const { return {values.data(), {extents}}; }
};

}  // namespace

int main() {
    auto const where = "example-" + std::to_string(getpid());
    int ready[2];
    if (pipe(ready) != 0) return 1;
    for (int i = 0; i < 2; ++i)
        if (fork() == 0) {
            char go = 0;
            if (read(ready[0], &go, 1) != 1) return 1;
            return reader(where);
        }

    // [server]
    ferry::ipc::server server{where};  // a socket with mode 0600
    server.start();                    // starts the server's thread
    ferry::ipc::session session{{.segments = ferry::ipc::segment_kind::anonymous}};  // for readers with another /dev/shm
    std::array<ferry::ipc::shared, 3> slots;
    for (auto& s : slots) s = ferry::ipc::share(slot{}, {.session = &session});
    // [/server]
    if (write(ready[1], "go", 2) != 2) return 1;
    // [publish]
    for (std::uint64_t n = 1; n <= frames; ++n) {
        std::uint64_t number = 1;  // identifies a slot to the server; begins at 1
        while (!server.is_reusable(number)) {
            number = number % slots.size() + 1;
            if (number == 1) server.poll(std::chrono::milliseconds{10});  // until a reader has finished
        }
        auto const& chosen = slots[number - 1];
        ferry::managed_tensor const t = chosen.tensor();
        std::fill_n(static_cast<float*>(t.view().writable_data()), pixels, static_cast<float>(n));
        server.publish("camera", number, ferry::wire::to_bytes(chosen.descriptor()), chosen.files());
    }
    // [/publish]
    int failed = 0, status = 1;
    for (int i = 0; i < 2; ++i) failed |= wait(&status) < 0 || status != 0;
    bool const is_idle = server.close();  // waits at most 2 s for the readers; each tensor stays valid until it is destroyed
    return failed == 0 && is_idle ? 0 : 1;
}
