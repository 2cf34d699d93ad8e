#include <ferry/exchange/to_host.hpp>
#include <ferry/space/memory_space.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>
#include <support/sim_array.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <utility>

namespace {

using namespace support;

/// A user's memory resource, without a base class.
struct counting_resource {
    std::pmr::monotonic_buffer_resource memory;
    int allocations = 0, deallocations = 0;
    std::size_t alignment = 0;
    void* allocate(std::size_t bytes, std::size_t align) {
        ++allocations;
        alignment = align;
        return memory.allocate(bytes, align);
    }
    void deallocate(void* p, std::size_t bytes, std::size_t align) {
        ++deallocations;
        memory.deallocate(p, bytes, align);
    }
};

}  // namespace

TEST_CASE("R39: to_host returns a tensor on the host unchanged") {
    float data[] = {1, 2};
    counting_producer p{data, float32, {2}, {1}};
    auto const got = ferry::to_host(ferry::from_dlpack(&p.raw));
    CHECK(got.get() == &p.raw);
    CHECK(!got.is_copied());
}

TEST_CASE("R43: a tensor in device memory without a stream is refused and unchanged") {
    float data[] = {1, 2};
    counting_producer p{data, float32, {2}};
    p.on(2);
    auto tensor = ferry::from_dlpack(&p.raw);
    fails(errc::stream, [&] { (void)ferry::to_host(std::move(tensor)); },
          {"is ready is unknown", "with a back end and either that stream or ferry::already_ready"});
    CHECK(static_cast<bool>(tensor));
    sim_system sim{device_type::cuda};
    counting_producer q{data, float32, {2}};
    q.on(2);
    fails(errc::stream, [&] { (void)ferry::to_host(&q.raw, sim); }, {"is ready is unknown", "from_dlpack(raw)"});
    CHECK(q.deleter_calls == 1);
    sim_system other{device_type::cuda};
    CHECK(ferry::to_host(std::move(tensor), other, ferry::already_ready).device() == ferry::cpu);
}

TEST_CASE("R53: the result is allocated from the caller's std::pmr or other memory resource") {
    sim_system sim{device_type::cuda};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const array = make_array(sim, device_type::cuda, stream, {4});
    std::byte storage[2048];
    std::pmr::monotonic_buffer_resource resource{storage, sizeof storage, std::pmr::null_memory_resource()};
    {
        ferry::destination const back_end{ferry::resource_space{resource}, sim};
        auto const got = ferry::to_host(array, back_end);
        auto const* const data = static_cast<std::byte const*>(got.view().data());
        CHECK(data >= storage);
        CHECK(data < storage + sizeof storage);
        CHECK(got.as<float, 1>()(3) == 4.0f);
        CHECK(sim.calls(verb::allocate) == 0);
    }
    counting_resource own;
    {
        auto const got = ferry::to_host(array, ferry::destination{ferry::resource_space{own}, sim});
        CHECK(got.as<float, 1>()(0) == 1.0f);
        CHECK(own.alignment >= 64);  // R31
        CHECK(own.deallocations == 0);
    }
    CHECK(own.allocations == 1);
    CHECK(own.deallocations == 1);
}

TEST_CASE("R53: a memory space allocates only for its own device") {
    sim_system sim{device_type::cuda, device{device_type::cuda, 1}};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const array = make_array(sim, device_type::cuda, stream, {4});
    fails(errc::device,
          [&] {
              (void)ferry::to_dlpack(array, {.device = device{device_type::cuda, 1}, .stream = stream},
                                     ferry::destination{ferry::host_space{}, sim});
          },
          {"requested on cuda, expected cpu", "request that device"});
}

TEST_CASE("R33: an exported tensor has the fields that were validated at import, even if the struct changed") {
    for (bool const device_asked : {false, true}) {
        float x = 7;
        std::int64_t extents[] = {1}, strides[] = {1};
        DLManagedTensorVersioned raw{};
        raw.version = {1, 3};
        raw.dl_tensor = {&x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, extents, strides, 0};
        auto came = ferry::from_dlpack(&raw);
        raw.dl_tensor.ndim = -5;
        raw.dl_tensor.data = nullptr;
        raw.dl_tensor.dtype.bits = 0;
        auto const got =
            device_asked ? ferry::to_host(std::move(came)) : ferry::to_dlpack(std::move(came), ferry::request{});
        CHECK(!came);
        CHECK(got.rank() == 1);
        CHECK(got.as<float, 1>()(0) == 7);
        CHECK(got.get() == &raw);
    }
}

TEST_CASE("R53: a device tensor that the caller keeps is copied to the host, complete on return") {
    sim_system sim{device_type::cuda};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const array = make_array(sim, device_type::cuda, stream, {4});
    auto const kept = ferry::to_dlpack(array, ferry::request{.stream = stream}, sim);
    for (int turn = 0; turn < 2; ++turn) {
        auto const got = ferry::to_host(kept, sim, stream);
        CHECK(got.is_copied());
        CHECK(got.as<float, 1>()(3) == 4.0f);
    }
    CHECK(kept);
    auto const copy = ferry::to_host(kept.view(), sim, stream);
    CHECK(copy.is_copied());
    CHECK(copy.as<float, 1>()(3) == 4.0f);
    CHECK(ferry::try_to_host(kept.view(), sim, stream)->as<float, 1>()(3) == 4.0f);
    fails(errc::stream, [&] { (void)ferry::to_host(kept.view(), sim, ferry::stream_token{}); }, {"is ready is unknown"});
    fails(errc::stream, [&] { (void)ferry::to_dlpack(kept, {.device = ferry::cpu}, sim); }, {"is ready is unknown"});
}
