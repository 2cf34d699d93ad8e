// Exchanges without a driver, or without a device that this program may use.
#include <ferry/cuda.hpp>
#include <ferry/cuda/copier.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace support;
using ferry::errc;

template <class BackEnd>
void refuses(BackEnd& b) {
    float data[] = {1, 2};
    auto const stays_cure = {"no CUDA driver or device", "use the CPU"};
    auto const refused = [&](counting_producer& p, ferry::request const& r) {
        {
            auto tensor = ferry::from_dlpack(&p.raw);
            fails(
                errc::no_driver,
                [&] { static_cast<void>(ferry::to_dlpack(std::move(tensor), r, b, ferry::already_ready)); },
                stays_cure);
            CHECK(static_cast<bool>(tensor));
            CHECK(p.deleter_calls == 0);
        }
        CHECK(p.deleter_calls == 1);
    };
    counting_producer up{data, float32, {2}};
    refused(up, {.device = ferry::device{ferry::device_type::cuda}});
    counting_producer pinned{data, float32, {2}};
    refused(pinned, {.device = ferry::device{ferry::device_type::cuda_host}});
    counting_producer down{data, float32, {2}};
    refused(down.on(2), {.device = ferry::cpu});
}

}  // namespace

TEST_CASE("alone: exchanges without a device" * doctest::skip()) {
    refuses(ferry::cuda::system);
    ferry::cuda::copier copier;
    refuses(copier);
    fails(errc::no_driver, [] { static_cast<void>(ferry::cuda::device_space{}.allocate(16)); }, {"use the CPU"});
    fails(errc::no_driver, [] { ferry::cuda::stream const s; }, {"use the CPU"});
}

TEST_CASE("R68: without a driver or device an exchange is refused with the cure, and the tensor stays the caller's") {
    pid_t const child = fork();
    if (child == 0) {
        setenv("CUDA_VISIBLE_DEVICES", "-1", 1);  // where there are some
        execl("/proc/self/exe", "gpu_without_device", "--test-case=alone: exchanges without a device", "--no-skip",
              static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
