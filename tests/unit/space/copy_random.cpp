// Random layouts, copied by the host.
#include <ferry/space/host_copy.hpp>
#include <support/copy_suite.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>

TEST_CASE(
    "R19, R26–R29, R31: a copy of any layout equals an element-by-element copy, and writes "
    "nothing else") {
    char const* const asked = std::getenv("FERRY_RANDOM_LAYOUTS");
    long const layouts = asked != nullptr ? std::atol(asked) : 20000;
    long seen[6] = {};
    auto const by_host = [](auto& dst, auto& src, auto to_at, auto from_at) {
        auto const to = to_at(dst.bytes.data(), ferry::cpu), from = from_at(src.bytes.data(), ferry::cpu);
        ferry::copy_on_host(ferry::make_copy_plan(to, from), to.writable_data(), from.data());
    };
    for (long i = 0; i < layouts; ++i)
        ++seen[static_cast<int>(copy_suite::check_one(static_cast<std::uint64_t>(i), by_host))];
    if (layouts >= 20000)
        for (int kind = 0; kind < 6; ++kind) {
            CAPTURE(kind);
            CHECK(seen[kind] > layouts / 100);  // the generator reaches every executor
        }
}
