// Failed exchanges leave their arguments as they were (D25).
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <support/allocation_failure.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>
#include <support/sim_array.hpp>
#include <support/verb.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace {

using ferry::copy_policy;
using ferry::errc;
using ferry::managed_tensor;
using ferry::request;
using support::fails;
using support::sim_array;
using support::sim_system;
using support::taken;
using support::verb;

constexpr ferry::device gpu{ferry::device_type::cuda}, other_gpu{ferry::device_type::cuda, 1},
    managed{ferry::device_type::cuda_managed};

/// An array of a device that can only be moved. `own_memory`: the adapter allocates copies, and fails on request.
template <bool own_memory>
struct movable {
    sim_array held;
    static inline sim_system* sim = nullptr;
    static inline bool allocate_fails = false;

    explicit movable(sim_array a) : held{std::move(a)} {}
    movable(movable&&) noexcept = default;
    movable& operator=(movable&&) = delete;
    [[nodiscard]] bool has_elements() const { return held.memory != nullptr; }
};

/// Contains its elements; a move clears those of the object that it was moved from.
struct inside {
    float values[4] = {1, 2, 3, 4};
    inside() = default;
    inside(inside&& other) noexcept {
        std::memcpy(values, other.values, sizeof values);
        std::memset(other.values, 0, sizeof values);
    }
};

/// A move leaves the elements with the object that was moved from, and copies them.
struct copied_by_move {
    sim_system* sim;
    sim_array held;
    copied_by_move(sim_system& s, sim_array a) : sim{&s}, held{std::move(a)} {}
    copied_by_move(copied_by_move const& other)
        : sim{other.sim}, held{support::make_array(*sim, other.held.where, other.held.ready_on, other.held.shape)} {}
};

}  // namespace

template <>
struct ferry::array_traits<movable<false>> {
    static tensor_view view(movable<false>& a) { return array_traits<sim_array>::view(a.held); }
    static stream_token ready_on(movable<false> const& a) { return a.held.ready_on; }
};
template <>
struct ferry::array_traits<movable<true>> {
    static tensor_view view(movable<true>& a) { return array_traits<sim_array>::view(a.held); }
    static stream_token ready_on(movable<true> const& a) { return a.held.ready_on; }
    static movable<true> allocate(data_type, shape_view shape, device d) {
        if (movable<true>::allocate_fails) throw error{errc::out_of_memory, "movable", "no memory"};
        auto const bytes = static_cast<std::size_t>(shape[0]) * sizeof(float);
        return movable<true>{{std::make_shared<support::sim_memory>(movable<true>::sim->make_memory(d, bytes)),
                              {shape.begin(), shape.end()},
                              {},
                              d,
                              already_ready}};
    }
};
template <>
struct ferry::array_traits<inside> {
    static inplace_view<1> view(inside& a) { return {a.values, {4}, {}, managed}; }
    static stream_token ready_on(inside const&) { return already_ready; }
};
template <>
struct ferry::array_traits<copied_by_move> {
    static tensor_view view(copied_by_move& a) { return array_traits<sim_array>::view(a.held); }
    static stream_token ready_on(copied_by_move const& a) { return a.held.ready_on; }
};
TEST_CASE_TEMPLATE("D25: an array is unchanged after an export that fails, whichever step fails", Array, movable<false>,
                   movable<true>) {
    sim_system sim{gpu, other_gpu};
    Array::sim = &sim;
    auto const theirs = sim.make_stream(gpu.type), ours = sim.make_stream(gpu.type);
    request const requests[] = {{.copy = copy_policy::always},
                                {.copy = copy_policy::always, .stream = ours},
                                {.device = other_gpu, .stream = ours},
                                {.device = ferry::cpu}};
    auto const make = [&] { return Array{support::make_array(sim, gpu, theirs, {4})}; };
    {
        auto array = make();
        auto const keeps = [&](errc code, auto&& exchange) {
            fails(code, exchange);
            CHECK(array.has_elements());
        };
        for (auto const& req : requests) {
            keeps(errc::no_backend, [&] { static_cast<void>(ferry::to_dlpack(std::move(array), req)); });
            keeps(errc::no_backend, [&] { static_cast<void>(ferry::from_dlpack<taken>(std::move(array), req)); });
            CHECK(ferry::try_to_dlpack(std::move(array), req).error().code() == errc::no_backend);
            CHECK(array.has_elements());
            CHECK(ferry::try_from_dlpack<taken>(std::move(array), req).error().code() == errc::no_backend);
            CHECK(array.has_elements());
            keeps(errc::copy_needed,
                  [&] { static_cast<void>(ferry::to_dlpack(std::move(array), req, ferry::share_only)); });
            for (auto const which : {verb::allocate, verb::copy, verb::order, verb::wait, verb::mark}) {
                // Counts the calls of a successful export, and makes each of them fail.
                auto const before = sim.calls(which);
                static_cast<void>(ferry::to_dlpack(make(), req, sim));
                int const calls = sim.calls(which) - before;
                for (int n = 1; n <= calls; ++n) {
                    CAPTURE(n);
                    sim.fail_at(which, n);
                    keeps(errc::driver, [&] { static_cast<void>(ferry::to_dlpack(std::move(array), req, sim)); });
                    sim.fail_at(which, n);
                    keeps(errc::driver,
                          [&] { static_cast<void>(ferry::from_dlpack<taken>(std::move(array), req, sim)); });
                    sim.fail_at(which, n);
                    CHECK(ferry::try_to_dlpack(std::move(array), req, sim).error().code() == errc::driver);
                    CHECK(array.has_elements());
                }
                sim.fail_at(which, 0);
            }
            Array::allocate_fails = true;
            if (ferry::allocates<Array>)
                keeps(errc::out_of_memory, [&] { static_cast<void>(ferry::to_dlpack(std::move(array), req, sim)); });
            Array::allocate_fails = false;
        }
        keeps(errc::no_backend, [&] { static_cast<void>(ferry::to_host(std::move(array))); });
        auto const got = ferry::to_dlpack(std::move(array), requests[1], sim);
        CHECK(!array.has_elements());  // the queued copy reads it
        sim.finish(ours);
        CHECK(sim.read<float>(static_cast<float const*>(got.view().data()) + 3) == 4.0f);
        CHECK(sim.reads_after_release() == 0);
        CHECK(sim.races() == 0);
    }
    sim.finish(theirs);
    sim.finish(ours);
    CHECK(sim.live_bytes() == 0);
}

TEST_CASE("D25: an array is unchanged after an export that fails, whichever allocation fails") {
    sim_system sim{gpu, other_gpu};
    auto const theirs = sim.make_stream(gpu.type), ours = sim.make_stream(gpu.type);
    movable<false> array{support::make_array(sim, gpu, theirs, {4})};
    for (request const& req : {request{.copy = copy_policy::always, .stream = ours}, request{.device = ferry::cpu},
                               request{.copy = copy_policy::never, .stream = theirs}}) {
        int failures = 0, unchanged = 0;
        for (bool is_complete = false; !is_complete && failures < 100;) {
            support::allocation_window const window{failures + 1};
            try {
                static_cast<void>(ferry::to_dlpack(std::move(array), req, sim));
                is_complete = true;
            } catch (std::bad_alloc const&) {
                ++failures;
                unchanged += array.has_elements();
            }
        }
        CHECK(failures >= 1);
        CHECK(unchanged == failures);
        if (!array.has_elements()) array.held = support::make_array(sim, gpu, theirs, {4});
    }
    sim.finish(ours);
}

TEST_CASE("R50: a queued copy of an array that contains its elements is complete on return") {
    sim_system sim{gpu, managed};
    auto const ours = sim.make_stream(managed.type);
    auto const memory = sim.make_memory(managed, sizeof(inside));
    auto* const array = ::new (memory.data()) inside{};
    auto gate = sim.close(ours);
    support::opener const other_thread{sim, gate};
    auto const got = ferry::to_dlpack(std::move(*array), {.copy = copy_policy::always, .stream = ours}, sim);
    std::memset(array->values, 0, sizeof array->values);
    sim.finish(ours);
    CHECK(sim.read<float>(static_cast<float const*>(got.view().data()) + 3) == 4.0f);
}

TEST_CASE("R50: a queued copy of an array whose elements stay where they were is complete on return") {
    sim_system sim{gpu};
    auto const ours = sim.make_stream(gpu.type);
    {
        copied_by_move array{sim, support::make_array(sim, gpu, ours, {4})};
        auto gate = sim.close(ours);
        support::opener const other_thread{sim, gate};
        auto const got = ferry::to_dlpack(std::move(array), {.copy = copy_policy::always, .stream = ours}, sim);
        array.held = {};
        sim.finish(ours);
        CHECK(sim.read<float>(static_cast<float const*>(got.view().data()) + 3) == 4.0f);
        CHECK(sim.reads_after_release() == 0);
    }
    CHECK(sim.live_bytes() == 0);
}

TEST_CASE("R53: copy_policy::always makes new memory from a tensor that is a copy") {
    float data[6] = {};
    request const always{.copy = copy_policy::always};
    for (bool const is_copied : {false, true}) {
        support::counting_producer p{data, support::float32, {2, 3}};
        if (is_copied) p.raw.flags = static_cast<std::uint64_t>(ferry::flags::is_copied);
        auto const is_new = [&](managed_tensor const& got, int calls) {
            CHECK(got.is_copied());
            CHECK(got.view().data() != data);
            CHECK(p.deleter_calls == calls);
        };
        is_new(ferry::to_dlpack(ferry::from_dlpack(&p.raw), always), 1);
        is_new(ferry::from_dlpack<managed_tensor>(ferry::from_dlpack(&p.raw), always), 2);
        is_new(ferry::from_dlpack<managed_tensor>(&p.raw, always), 3);
        is_new(ferry::from_dlpack<taken>(ferry::from_dlpack(&p.raw), always, ferry::host_only, {}).tensor, 4);
        is_new(*ferry::try_from_dlpack<managed_tensor>(&p.raw, always), 5);
    }
}
