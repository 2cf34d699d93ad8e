// Topics of frames in GPU memory, which another process reads.
#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/share.hpp>
#include <gpu/importer.hpp>
#include <gpu/plain_array.hpp>
#include <gpu/world.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace support;
using ferry::errc;
using enum support::order_of_work;
namespace cuda = ferry::cuda;
namespace ipc = ferry::ipc;

/// A directory for names.
struct own_directory {
    std::string path = std::filesystem::temp_directory_path() / "ferry-gpu-XXXXXX";
    own_directory() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
    own_directory(own_directory const&) = delete;
    own_directory& operator=(own_directory const&) = delete;
    ~own_directory() { std::filesystem::remove_all(path); }
};

constexpr std::int64_t frame_bytes = 65536;

/// A topic of two slots, and a process that follows it.
struct scene {
    own_directory here{};
    cuda::shareable<> back_end{};
    ipc::publisher camera{"camera", {slot(), slot()}, {.directory = here.path}};
    test_stream s{};
    importer other{};

    scene() {
        std::string const names = here.path + "\ncamera";
        REQUIRE(other.tell(follow, std::as_bytes(std::span{names})).code == errc::ok);
    }
    [[nodiscard]] ipc::shared slot() { return ipc::share(make_plain({frame_bytes}), back_end); }
    /// Begins a frame of bytes that the stream writes. Returns its slot.
    unsigned write(std::uint64_t value) {
        auto const k = camera.begin(patience, s.token());
        REQUIRE(k);
        must(cudaMemsetAsync(camera[*k].view().writable_data(), static_cast<int>(value), frame_bytes, s.get()));
        return *k;
    }
    std::uint64_t publish() { return camera.publish(write(camera.generation() + 1), s.token()); }
};

}  // namespace

TEST_CASE("ipc topic: a slot is handed back in the order of the streams, and neither host waits") {
    load_kernels();
    scene t;
    t.publish();
    auto const first = t.other.tell(next_frame);
    REQUIRE_MESSAGE(first.code == errc::ok, text_of(first));
    CHECK(words(first) == std::vector<std::int64_t>{1});
    CHECK(t.other.tell(copy_later).code == errc::ok);
    CHECK(numbers(t.other.tell(finish)) == std::vector<int>(frame_bytes, 1));
    REQUIRE(t.other.tell(drop).code == errc::ok);
    t.publish();
    for (auto const order : {next_frame, hold, copy_later, drop})  // its work is behind a gate
        REQUIRE(t.other.tell(order).code == errc::ok);
    t.publish();
    t.write(99);
    ::usleep(20'000);
    CHECK_GATED(!t.s.is_idle());
    REQUIRE(t.other.tell(release).code == errc::ok);
    CHECK(numbers(t.other.tell(finish)) == std::vector<int>(frame_bytes, 2));
    t.s.finish();
    static_cast<void>(t.other.usage());  // which unmaps it
}

TEST_CASE("ipc topic: a slot that a killed process has read is free again") {
    scene t;
    t.publish();
    REQUIRE(t.other.tell(next_frame).code == errc::ok);
    t.publish();
    CHECK(!t.camera.begin({}, t.s.token()));
    t.other.kill();
    CHECK(t.publish() == 3);
}
