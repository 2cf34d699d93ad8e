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
#include <utility>
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

std::span<std::byte const> bytes_of(std::string const& text) { return std::as_bytes(std::span{text}); }

/// Publishes a frame that a stream writes.
std::uint64_t publish_on(test_stream& s, ipc::publisher& camera) {
    auto const k = camera.begin(patience, s.token());
    REQUIRE(k);
    auto const value = static_cast<int>(camera.generation() + 1);
    must(cudaMemsetAsync(camera[*k].view().writable_data(), value, frame_bytes, s.get()));
    return camera.publish(*k, s.token());
}

}  // namespace

TEST_CASE("ipc topic: a slot is handed back in the order of the streams, and neither host waits") {
    load_kernels();
    own_directory const here;
    cuda::shareable back_end;
    std::vector<ipc::shared> two;
    for (int i = 0; i < 2; ++i) two.push_back(ipc::share(make_plain({frame_bytes}), back_end));
    ipc::publisher camera{"camera", std::move(two), {.directory = here.path}};
    test_stream s;
    importer other;
    REQUIRE(other.tell(follow, bytes_of(here.path + "\ncamera")).code == errc::ok);
    publish_on(s, camera);
    auto const first = other.tell(next_frame);
    REQUIRE_MESSAGE(first.code == errc::ok, text_of(first));
    CHECK(words(first) == std::vector<std::int64_t>{1});
    CHECK(other.tell(copy_later).code == errc::ok);
    CHECK(numbers(other.tell(finish)) == std::vector<int>(frame_bytes, 1));
    REQUIRE(other.tell(drop).code == errc::ok);
    publish_on(s, camera);

    REQUIRE(other.tell(next_frame).code == errc::ok);
    REQUIRE(other.tell(hold).code == errc::ok);
    REQUIRE(other.tell(copy_later).code == errc::ok);
    REQUIRE(other.tell(drop).code == errc::ok);  // its work is behind a gate
    publish_on(s, camera);
    auto const k = camera.begin(patience, s.token());
    REQUIRE(k);
    must(cudaMemsetAsync(camera[*k].view().writable_data(), 99, frame_bytes, s.get()));
    ::usleep(20'000);
    CHECK_GATED(!s.is_idle());
    REQUIRE(other.tell(release).code == errc::ok);
    CHECK(numbers(other.tell(finish)) == std::vector<int>(frame_bytes, 2));
    s.finish();
    static_cast<void>(other.usage());  // which unmaps it
}

TEST_CASE("ipc topic: a slot that a killed process has read is free again") {
    own_directory const here;
    cuda::shareable back_end;
    std::vector<ipc::shared> two;
    for (int i = 0; i < 2; ++i) two.push_back(ipc::share(make_plain({frame_bytes}), back_end));
    ipc::publisher camera{"camera", std::move(two), {.directory = here.path}};
    test_stream s;
    {
        importer other;
        REQUIRE(other.tell(follow, bytes_of(here.path + "\ncamera")).code == errc::ok);
        publish_on(s, camera);
        REQUIRE(other.tell(next_frame).code == errc::ok);
        publish_on(s, camera);
        CHECK(!camera.begin({}, s.token()));
        other.kill();
    }
    CHECK(publish_on(s, camera) == 3);
}
