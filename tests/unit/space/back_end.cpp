#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>
#include <support/fails.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using ferry::device;
using ferry::device_type;

TEST_CASE("R40: host_only supports the CPU only") {
    CHECK(ferry::host_only.reaches(ferry::cpu));
    CHECK(!ferry::host_only.reaches(device_type::cuda));
    CHECK(!ferry::host_only.reaches(device_type::cuda_host));
    auto const memory = ferry::host_only.allocate(ferry::cpu, 8, {});
    CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0);
}

TEST_CASE("D9: destination supports host-accessible memory of its space, and the devices of its back end") {
    struct device_space : ferry::host_space {
        [[nodiscard]] ferry::device device() const { return {device_type::cuda}; }
    };
    struct pinned_space : ferry::host_space {
        [[nodiscard]] ferry::device device() const { return {device_type::cuda_host}; }
    };
    CHECK(ferry::destination{pinned_space{}}.reaches(device_type::cuda_host));
    CHECK(!ferry::destination{pinned_space{}}.reaches(device_type::cuda));
    CHECK(!ferry::destination{device_space{}}.reaches(device_type::cuda));  // host code would fault there
    support::sim_system sim{device_type::cuda};
    CHECK(ferry::destination{device_space{}, sim}.reaches(device_type::cuda));
    support::fails(ferry::errc::device,
                   [&] { (void)ferry::destination{device_space{}, sim}.allocate(ferry::cpu, 1, {}); },
                   {"the result is requested on cpu, expected cuda, the space's device"});
}

TEST_CASE("R40: the error for an unsupported device names the device and the header of its back end") {
    auto const where = std::source_location::current();
    auto const require = [&](device d) {
        static_cast<void>(ferry::detail::check_support(ferry::host_only, d, {"ferry::test", where}));
    };
    support::fails(ferry::errc::no_backend, [&] { require({device_type::cuda, 3}); },
                   {"ferry::test", "cuda:3", "<ferry/cuda.hpp>"});
    support::fails(ferry::errc::no_backend, [&] { require(device_type::metal); },
                   {"metal:0", "pass a back end for this device"});
}
