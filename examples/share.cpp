// Shares a tensor with another process: one copy into shared memory, which both processes access.
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

struct image {
    std::vector<float> pixels{0, 1, 2, 3, 4, 5};
    std::int64_t extents[2] = {2, 3};

    ferry::tensor_view ferry_view() { return {pixels.data(), {extents}}; }
    ferry::tensor_view ferry_view() const { return {pixels.data(), {extents}}; }
};

void send(int to, std::vector<std::byte> const& bytes) {
    if (write(to, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) throw ferry::error{ferry::errc::argument, "send", ferry::message{"the pipe is closed"}};
}

std::vector<std::byte> receive(int from) {
    std::vector<std::byte> bytes(4096);
    auto const n = read(from, bytes.data(), bytes.size());
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
}

int importer(int from, int to) {
    // [attach]
    ferry::ipc::session session;  // keeps mappings for later attaches
    auto const descriptor = ferry::wire::from_bytes(receive(from));
    {
        ferry::managed_tensor t = ferry::ipc::attach(descriptor, {.session = &session});
        t.as<float, 2>()(1, 2) = 55;  // visible to the exporter
    }
    // [/attach]
    send(to, {std::byte{1}});
    return 0;
}

}  // namespace

int main() {
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) return 1;
    if (fork() == 0) return importer(down[0], up[1]);

    // [share]
    ferry::ipc::session session;
    ferry::ipc::shared shared = ferry::ipc::share(image{}, {.session = &session});
    send(down[1], ferry::wire::to_bytes(shared.descriptor()));
    // [/share]

    receive(up[0]);
    // [reuse]
    bool const is_free = shared.wait_for_readers(std::chrono::seconds{2});  // true: no readers, so the memory can be written
    // [/reuse]
    // [space]
    // Allocates shareable memory: no copy.
    ferry::ipc::shared_space space{session};
    ferry::buffer<ferry::ipc::shared_space> memory{6 * sizeof(float), space};
    // [/space]
    std::int64_t const shape[] = {6};
    ferry::tensor_view const view{static_cast<float*>(memory.data()), {shape}};
    auto direct = ferry::ipc::share(ferry::make_managed(std::move(memory), view), {.session = &session, .copy = ferry::copy_policy::never});

    ferry::managed_tensor const mine = shared.tensor();
    float const seen = mine.as<float, 2>()(1, 2);
    std::printf("copied: %d, the importer wrote: %g\n", static_cast<bool>(shared.copied()), static_cast<double>(seen));
    int status = 1;
    wait(&status);
    return is_free && shared.copied() && !direct.copied() && seen == 55.0f && status == 0 ? 0 : 1;
}
