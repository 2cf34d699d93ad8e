// minitensor's tensors leave their memory and return, and are copied when they are written.
#include <minitensor_lease.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

namespace {

[[nodiscard]] std::int64_t first(mt::tensor const& t) { return static_cast<std::int64_t const*>(t.data())[0]; }

TEST_CASE("a spilled tensor occupies no memory, and returns with its values while a tensor of read exists") {
    auto const device = ferry::cpu;
    ferry::spill_manager manager{ferry::host_only, ferry::host_space{}};
    auto const before = mt::live_bytes();
    auto const t = mt::spill(manager, mt::arange(1000));
    CHECK(mt::live_bytes() == before + 8000);
    CHECK(manager.free_up(8000) == 8000);
    CHECK(mt::live_bytes() == before);
    {
        mt::tensor const lease = mt::read(t, device), view = mt::transpose(lease);
        CHECK(lease.readonly());
        CHECK(static_cast<std::int64_t const*>(view.data())[999] == 999);
        CHECK(manager.free_up(1) == 0);
        CHECK(manager.statistics().leased_bytes == 8000);
    }
    CHECK(manager.free_up(1) == 8000);
}

TEST_CASE("copies of a shared tensor share memory until one of them is written") {
    auto const device = ferry::cpu;
    ferry::spill_manager manager{ferry::host_only, ferry::host_space{}};
    // [use]
    ferry::shared_tensor a{mt::spill(manager, mt::arange(1000))}, b = a;  // share memory, which can be spilled
    mt::tensor const old = mt::read(b, device);                           // read-only
    mt::fill(mt::write(b, device), std::int64_t{7});  // `b` has a copy; `a` and `old` keep the values
    // [/use]
    CHECK(old.data() == mt::read(a, device).data());
    CHECK(old.readonly());
    CHECK(first(mt::read(b, device)) == 7);
    CHECK(first(old) == 0);
    CHECK(mt::write(a, device).data() != old.data());
}

}  // namespace
