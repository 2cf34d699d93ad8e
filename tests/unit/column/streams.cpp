// R43–R45: each function of columns and copies that takes a stream refuses one that is null or of another device.
#include <ferry/column.hpp>

#include <support/fails.hpp>
#include <support/no_owner.hpp>
#include <support/sim_column.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace {

using ferry::column;
using ferry::column_buffer;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::stream_token;
using support::both_fail;

device const gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1};
stream_token const null_stream = stream_token::from_cuda_handle(0);
stream_token const unsuitable[] = {null_stream,
                                   stream_token::rocm_default(),
                                   stream_token::rocm_handle(16),
                                   stream_token::native(device_type::vulkan, 16),
                                   stream_token::native(device_type::cpu, 16),
                                   stream_token::cuda_legacy_default(2),
                                   stream_token::cuda_per_thread_default(2)};

struct world {
    support::sim_system sim{gpu, other_gpu};
    stream_token on = sim.make_stream(device_type::cuda);

    [[nodiscard]] static column numbers() {
        static std::int32_t const values[] = {1, 2, 3};
        column_buffer const buffers[] = {{}, {values, sizeof values}};
        return ferry::make_column({.format = "i", .length = 3, .buffers = buffers}, nullptr);
    }
    /// A column that is ready on every stream.
    [[nodiscard]] column put(device d) {
        auto made = support::sim_columns{sim, d, on}.put(numbers());
        sim.wait(on);
        return made;
    }
    [[nodiscard]] ferry::managed_tensor tensor(device d) {
        std::int64_t const extent[] = {3};
        auto memory = sim.make_memory(d, 12);
        auto* const first = static_cast<int*>(memory.data());
        return ferry::make_managed(std::move(memory), ferry::tensor_view{first, extent, {}, d});
    }
    /// Checks the calls of `f(stream)` and `try_f(stream)`.
    template <class F, class TryF>
    void refuses(F f, TryF try_f) {
        auto const calls = sim.calls();
        for (auto const& bad : unsuitable)
            both_fail(
                errc::stream, [&] { static_cast<void>(f(bad)); }, [&] { return try_f(bad); },
                {bad == null_stream ? "(R44)" : "stream of another device"});
        CHECK(sim.calls() == calls);
    }
};

}  // namespace

TEST_CASE("R43: copy refuses a stream that neither tensor can be ready on") {
    world w;
    auto const a = w.tensor(gpu), b = w.tensor(gpu), far = w.tensor(other_gpu);
    int here[3] = {};
    std::int64_t const three[] = {3};
    ferry::tensor_view const host{here, three};
    w.refuses([&](auto on) { return ferry::copy(a.view(), b.view(), w.sim, on); },
              [&](auto on) { return ferry::try_copy(a.view(), b.view(), w.sim, on); });
    w.refuses([&](auto on) { return ferry::copy(host, b.view(), w.sim, on); },
              [&](auto on) { return ferry::try_copy(host, b.view(), w.sim, on); });
    w.refuses([&](auto on) { return ferry::copy(a.view(), host, w.sim, on); },
              [&](auto on) { return ferry::try_copy(a.view(), host, w.sim, on); });
    auto const of_other = stream_token::cuda_legacy_default(1);
    both_fail(
        errc::stream, [&] { static_cast<void>(ferry::copy(a.view(), b.view(), w.sim, of_other)); },
        [&] { return ferry::try_copy(a.view(), b.view(), w.sim, of_other); },
        {"belongs to cuda:1", "the data is on cuda:0", "pass a stream of cuda:0"});
    CHECK(ferry::copy(a.view(), far.view(), w.sim, of_other) == 12);  // the stream of one of them
    CHECK(ferry::copy(far.view(), a.view(), w.sim, of_other) == 12);
}

TEST_CASE("R46: host memory has no streams: any stream but a null one is accepted and not used") {
    int from[3] = {1, 2, 3}, to[3] = {};
    std::int64_t const three[] = {3};
    ferry::tensor_view const src{from, three}, dst{to, three};
    CHECK(ferry::copy(dst, src, ferry::host_only, stream_token::rocm_default()) == 12);
    both_fail(
        errc::stream, [&] { static_cast<void>(ferry::copy(dst, src, ferry::host_only, null_stream)); },
        [&] { return ferry::try_copy(dst, src, ferry::host_only, null_stream); }, {"(R44)"});
    CHECK(world::numbers().to(ferry::cpu, ferry::host_only, stream_token::rocm_default()).length() == 3);
    CHECK(ferry::to_tensor(world::numbers(), ferry::host_only, stream_token::rocm_default()).rank() == 1);
}

TEST_CASE("R43: column::to refuses a stream that neither device uses, even if there is nothing to copy") {
    world w;
    auto const there = w.put(gpu);
    for (device const place : {ferry::cpu, gpu, other_gpu})
        w.refuses([&](auto on) { return there.to(place, w.sim, on); },
                  [&](auto on) { return there.try_to(place, w.sim, on); });
    w.refuses([&](auto on) { return world::numbers().to(gpu, w.sim, on); },
              [&](auto on) { return world::numbers().try_to(gpu, w.sim, on); });
    auto const of_other = stream_token::cuda_legacy_default(1);
    both_fail(
        errc::stream, [&] { static_cast<void>(there.to(ferry::cpu, w.sim, of_other)); },
        [&] { return there.try_to(ferry::cpu, w.sim, of_other); });
    CHECK(there.to(other_gpu, w.sim, of_other).device() == other_gpu);
}

TEST_CASE("R43: a struct on several devices needs a stream that each of its devices can use") {
    world w;
    column const children[] = {world::numbers(), w.put(gpu), w.put(other_gpu)};
    auto const mixed = ferry::make_struct(children, "t");
    w.refuses([&](auto on) { return mixed.to(ferry::cpu, w.sim, on); },
              [&](auto on) { return mixed.try_to(ferry::cpu, w.sim, on); });
    for (int const id : {0, 1}) {  // the children are ready on the default stream of their own device
        auto const on = stream_token::cuda_legacy_default(id);
        both_fail(
            errc::stream, [&] { static_cast<void>(mixed.to(ferry::cpu, w.sim, on)); },
            [&] { return mixed.try_to(ferry::cpu, w.sim, on); });
    }
    CHECK(mixed.to(ferry::cpu, w.sim, stream_token::cuda_legacy_default()).device() == ferry::cpu);
    CHECK(mixed.to(ferry::cpu, w.sim, w.on).device() == ferry::cpu);
}

TEST_CASE("R43: exports and imports of tensors refuse a stream that the device does not use, and release the tensors") {
    world w;
    auto const there = w.put(gpu);
    w.refuses([&](auto on) { return ferry::to_dlpack(there, w.sim, on); },
              [&](auto on) { return ferry::try_to_dlpack(there, w.sim, on); });
    w.refuses([&](auto on) { return ferry::to_tensor(there, w.sim, on); },
              [&](auto on) { return ferry::try_to_tensor(there, w.sim, on); });
    auto const live = w.sim.live_bytes();
    w.refuses([&](auto on) { return ferry::from_tensors(w.tensor(gpu), {}, w.sim, on); },
              [&](auto on) { return ferry::try_from_tensors(w.tensor(gpu), {}, w.sim, on); });
    CHECK(w.sim.live_bytes() == live);
}
