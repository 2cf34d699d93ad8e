#include <ferry/space/memory_space.hpp>
#include <support/allocation_failure.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>

TEST_CASE("R31: host memory is aligned as the DLPack header asks") {
    ferry::host_space const space;
    for (auto const bytes : {std::size_t{1}, std::size_t{3}, std::size_t{4096}}) {
        auto* const p = space.allocate(bytes);
        CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
        std::memset(p, 1, bytes);
        space.deallocate(p, bytes);
    }
    CHECK(space.device() == ferry::cpu);
}

TEST_CASE("R59: host memory that is short is std::bad_alloc") {
    support::allocation_window const window{1};
    bool thrown = false;
    try {
        (void)ferry::host_space{}.allocate(16);
    } catch (std::bad_alloc const&) {
        thrown = true;
    }
    CHECK(thrown);
}

TEST_CASE("D9: a resource lends its memory under the device that it is said to be on") {
    alignas(256) std::byte storage[1024];
    std::pmr::monotonic_buffer_resource resource{storage, sizeof storage, std::pmr::null_memory_resource()};
    ferry::resource_space space{resource, ferry::device{ferry::device_type::cuda_host}};
    auto* const p = static_cast<std::byte*>(space.allocate(100));
    CHECK(p >= storage);
    CHECK(p < storage + sizeof storage);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    CHECK(space.device() == ferry::device{ferry::device_type::cuda_host});
    space.deallocate(p, 100);
    CHECK(ferry::resource_space{resource}.device() == ferry::cpu);
}
