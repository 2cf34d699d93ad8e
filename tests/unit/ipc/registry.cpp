#include <ferry/ipc/registry.hpp>

#include "support/fails.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using ferry::errc;
using ferry::ipc::registry;

namespace {

std::vector<std::byte> some(std::size_t n = 1) { return std::vector<std::byte>(n, std::byte{7}); }

std::string names(registry const& r) {
    std::string all;
    for (auto const& [name, p] : r.all()) all += name + " ";
    return all;
}

}  // namespace

TEST_CASE("IPC: a name gives its newest publication") {
    registry r;
    CHECK(r.use("a", 0) == nullptr);
    CHECK(r.publish("a", 1, some(3), 2, 10).empty());
    auto const* p = r.use("a", 20);
    REQUIRE(p != nullptr);
    CHECK(p->buffer == 1);
    CHECK(p->descriptor == some(3));
    CHECK(p->fds == 2);
    CHECK(p->since == 10);
    CHECK(r.holds(1));
    auto const first = p->generation;
    auto const gone = r.publish("a", 2, some(), 0, 30);
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].buffer == 1);
    CHECK(r.use("a", 30)->buffer == 2);
    CHECK(r.use("a", 30)->generation > first);
    CHECK_FALSE(r.holds(1));
}

TEST_CASE("IPC: beyond the limit the least recently used publication is evicted, never the new one") {
    registry r{2};
    r.publish("a", 1, some(), 0, 0);
    r.publish("b", 2, some(), 0, 0);
    CHECK(r.use("a", 0) != nullptr);
    auto gone = r.publish("c", 3, some(), 0, 0);
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].name == "b");
    CHECK(names(r) == "a c ");
    gone = r.publish("d", 4, some(), 0, 0);
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].name == "a");
    CHECK(r.publish("d", 5, some(), 0, 0).size() == 1);  // the same name evicts no other
    CHECK(names(r) == "c d ");
    registry one{0};
    one.publish("a", 1, some(), 0, 0);
    CHECK(names(one) == "a ");
}

TEST_CASE("IPC: a publication expires at the end of its time to live, and not before") {
    registry r{10, 100};
    r.publish("a", 1, some(), 0, 1000);
    r.publish("b", 2, some(), 0, 1050);
    CHECK(r.use("a", 1099) != nullptr);
    CHECK(r.use("a", 1100) == nullptr);  // also before expire() was called
    CHECK(r.expire(1099).empty());
    auto const gone = r.expire(1100);
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].name == "a");
    CHECK(names(r) == "b ");
    registry forever{10, 0};
    forever.publish("a", 1, some(), 0, 0);
    CHECK(forever.expire(UINT64_MAX).empty());
}

TEST_CASE("IPC: a withdrawn publication is returned once") {
    registry r;
    r.publish("a", 1, some(), 0, 0);
    r.count_grant("a");
    auto const gone = r.withdraw("a");
    REQUIRE(gone.size() == 1);
    CHECK(gone[0].buffer == 1);
    CHECK(gone[0].grants == 1);
    CHECK(r.withdraw("a").empty());
    CHECK(r.use("a", 0) == nullptr);
    r.count_grant("a");
}

TEST_CASE("IPC: an invalid publication is refused, and changes nothing") {
    registry r{1};
    r.publish("a", 1, some(), 0, 0);
    auto const before = r;
    support::fails(errc::argument, [&] { r.publish("", 2, some(), 0, 0); }, {"1 to 200 bytes"});
    support::fails(errc::argument, [&] { r.publish("a\n", 2, some(), 0, 0); }, {"control characters"});
    support::fails(errc::argument, [&] { r.publish("b", 0, some(), 0, 0); }, {"number buffers from 1"});
    support::fails(errc::argument, [&] { r.publish("b", 2, some(60001), 0, 0); }, {"60000"});
    support::fails(errc::argument, [&] { r.publish("b", 2, some(), 9, 0); }, {"8 are the most"});
    CHECK(r == before);
}
