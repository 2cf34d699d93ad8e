// Random programs of shared tensors that are spilled, against an oracle of their values, also when operations fail.
#include <ferry/lease/shared_tensor.hpp>
#include <ferry/lease/spill_manager.hpp>

#include <support/lease.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace support;
using ferry::device_type;
using ferry::managed_tensor;
using ferry::shared_tensor;

constexpr std::size_t count = 64, one = count * sizeof(float);

/// What fails: the n-th allocation of device memory, or the n-th call of an operation of the back end.
struct failure {
    int device_memory = 0, host_memory = 0, copy = 0, mark = 0;
};

struct machine {
    sim_system sim{gpu, pinned};
    sim_heap heap{sim, gpu, 8 * one};
    heap_space space{&heap};
    ferry::spill_manager manager{sim, space, {.limit = 7 * one, .most_pinned = 2 * one}};
    std::atomic<int> failed = 0, wrong = 0;

    explicit machine(failure const& f = {}) {
        heap.fail_at(f.device_memory);
        sim.fail_at(verb::allocate, f.host_memory);
        sim.fail_at(verb::copy, f.copy);
        sim.fail_at(verb::mark, f.mark);
    }

    /// Runs one program. A call that fails changes no value.
    void run(unsigned seed, int steps) {
        struct object {
            shared_tensor tensor;
            float value;
        };
        struct leased {
            managed_tensor tensor;
            float value;
        };
        std::mt19937 random{seed};
        auto const below = [&](std::size_t n) { return random() % n; };
        std::vector<object> objects;
        std::vector<leased> leases;
        ferry::stream_token const streams[] = {sim.make_stream(device_type::cuda), sim.make_stream(device_type::cuda)};
        auto const check = [&](managed_tensor const& m, float value) {
            for (auto const s : streams) sim.finish(s);
            for (std::size_t const i : {std::size_t{0}, count - 1})
                if (sim.read<float>(static_cast<float const*>(m.view().data()) + i) != value + static_cast<float>(i))
                    ++wrong;
        };
        auto const attempt = [&](auto f) {
            try {
                f();
            } catch (ferry::error const&) {
                ++failed;
            } catch (std::bad_alloc const&) {
                ++failed;
            }
        };
        for (int step = 0; step < steps; ++step) {
            auto const on = streams[below(2)];
            auto const fresh = static_cast<float>(below(1000));
            auto const which = below(16);
            if (objects.empty() || (which < 3 && objects.size() < 12)) {
                attempt([&] {
                    auto room = manager.reserve(one);
                    ferry::managed_tensor made = make_floats(sim, space, count, fresh, on);
                    objects.push_back({shared_tensor{manager.adopt(std::move(made), on, std::move(room))}, fresh});
                });
                continue;
            }
            auto& it = objects[below(objects.size())];
            if (which < 6) {
                attempt([&] {
                    managed_tensor const m = it.tensor.write(on);
                    write_values(sim, const_cast<void*>(m.view().data()), count, fresh, on);
                    it.value = fresh;
                });
            } else if (which < 9) {
                attempt([&] {
                    managed_tensor const m = it.tensor.read(on);
                    check(m, it.value);
                });
            } else if (which < 11) {
                attempt([&] { objects.push_back({it.tensor, it.value}); });
            } else if (which == 11 && leases.size() < 2) {
                attempt([&] { leases.push_back({it.tensor.read(on), it.value}); });
            } else if (which == 12 && !leases.empty()) {
                check(leases.back().tensor, leases.back().value);
                leases.pop_back();
            } else if (which == 13) {
                static_cast<void>(manager.free_up(one * below(4)));
            } else {
                std::swap(it, objects.back());
                objects.pop_back();
            }
        }
        leases.clear();
        for (auto const& it : objects)
            attempt([&] {
                managed_tensor const m = it.tensor.read(streams[0]);
                check(m, it.value);
            });
        objects.clear();
        for (auto const s : streams) sim.finish(s);
    }
    void check_end() {
        static_cast<void>(manager.free_up(100 * one));
        CHECK(wrong == 0);
        CHECK(sim.races() == 0);
        CHECK(sim.reads_after_release() == 0);
        auto const s = manager.statistics();
        CHECK(s.leased_bytes == 0);
        CHECK(s.resident_bytes == heap.used());
        CHECK(heap.used() == s.quarantined * one);  // nothing leaks
        CHECK(heap.most_used() <= 8 * one);
    }
};

TEST_CASE("random programs keep the values of an oracle") {
    std::uint64_t spills = 0;
    for (unsigned seed = 1; seed <= 40; ++seed) {
        CAPTURE(seed);
        machine m;
        m.run(seed, 150);
        m.check_end();
        spills += m.manager.statistics().spills;
    }
    CHECK(spills > 400);
}

TEST_CASE("random programs keep the values when one operation fails, for each of the first operations") {
    for (int n = 1; n <= 30; ++n)
        for (failure const& f :
             {failure{.device_memory = n}, failure{.host_memory = n}, failure{.copy = n}, failure{.mark = n}}) {
            CAPTURE(n);
            CAPTURE(f.host_memory);
            CAPTURE(f.copy);
            CAPTURE(f.mark);
            machine m{f};
            m.run(7, 100);
            m.check_end();
        }
}

TEST_CASE("eight threads run random programs on one device") {
    for (unsigned round = 0; round < 4; ++round) {
        machine m;
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 8; ++i) threads.emplace_back([&m, i, round] { m.run(100 * round + i, 40); });
        for (auto& thread : threads) thread.join();
        m.check_end();
    }
}

}  // namespace
