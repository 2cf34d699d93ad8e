#include <ferry/ipc/detail/names.hpp>

#include <support/ipc.hpp>
#include <support/process.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>

using ferry::ipc::detail::parse_segment_name;
using ferry::ipc::detail::segment_name;

namespace {

std::size_t sweep() {
    long from = 0;
    return ferry::ipc::detail::sweep(from);
}

}  // namespace

TEST_CASE("the name of a segment identifies its process, and is parsed to the same parts") {
    segment_name const n{1000, 4026531836, 4242, 0xffff'ffff'ffff'ffff};
    CHECK(to_string(n) == "/ferry-1000-4026531836-4242-18446744073709551615");
    CHECK(parse_segment_name(to_string(n)) == n);
    segment_name const most{UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT64_MAX};
    CHECK(parse_segment_name(to_string(most)) == most);
    CHECK(to_string(most).size() < 255);
    segment_name const without{1000, 4026531836, 4242, 7, ferry::ipc::segment_kind::anonymous};
    CHECK(to_string(without) == "/ferry-memfd-1000-4026531836-4242-7");
    CHECK(parse_segment_name(to_string(without)) == without);
}

TEST_CASE("other texts are not names, so that no path leaves the folder") {
    for (auto const* text : {"",
                             "/",
                             "ferry-1-2-3-5",
                             "/ferry-",
                             "/ferry-1-2-3",
                             "/ferry-1-2-3-",
                             "/ferry-1-2-3-4-5",
                             "/ferry-1-2-3-5/",
                             "/ferry-01-2-3-5",
                             "/ferry-1-2-3-5\n",
                             "/ferry-1-2--3-5",
                             "/ferry-1-2-3-+5",
                             "/ferry-1-2-3- 5",
                             "/ferry-1-2-3-0x5",
                             "/ferry-memfd-",
                             "/ferry-memfd-1-2-3",
                             "/ferry-memfd1-2-3-5",
                             "/ferry-memfd-memfd-1-2-3-5",
                             "/../ferry-1-2-3-5",
                             "/ferry-1-2-3-../5",
                             "/ferry-1-2-4294967296-5",
                             "/ferry-1-2-3-18446744073709551616",
                             "/ferry-1-2-3-99999999999999999999"})
        CHECK_MESSAGE(!parse_segment_name(text), text);
    CHECK_FALSE(parse_segment_name(std::string_view{"/ferry-1-2-3-5\0", 15}));
}

TEST_CASE("an exporter that starts removes the names whose locks have ended, and nothing else") {
    auto const uid = std::uint64_t{geteuid()};
    auto const exists = [](segment_name const& n) { return std::filesystem::exists("/dev/shm" + to_string(n)); };
    auto const make = [](segment_name const& n) { return ferry::ipc::detail::segment::create(to_string(n), 10, n.id); };
    segment_name const of_killed{uid, 1, 1, 1}, mine{uid, 2, 1, 2}, other_user{uid + 1, 1, 1, 3}, again{uid, 1, 1, 4};
    support::process killed{[&](support::talk to) {
        auto const s = make(of_killed);
        to.say();
        static_cast<void>(to.hear());
        return 0;
    }};
    REQUIRE(killed.hear() == '.');
    auto const kept = make(mine);
    static_cast<void>(make(other_user));
    auto const importer = ferry::ipc::detail::segment::open(to_string(of_killed), 10, of_killed.id,
                                                            ferry::ipc::detail::access_mode::read_write);
    CHECK(importer.control().enter(importer.locks()) == 0);
    CHECK(sweep() == 0);
    killed.kill(SIGKILL);
    static_cast<void>(killed.wait());
    CHECK(kept.link(to_string(again)));
    CHECK(sweep() == 1);
    CHECK_FALSE(exists(of_killed));
    for (auto const& n : {mine, other_user, again}) CHECK(exists(n));
    CHECK(kept.unlink(to_string(mine)));
    CHECK_FALSE(kept.is_open(mine.id));
    CHECK(sweep() == 0);
    CHECK(exists(again));
    CHECK(kept.unlink(to_string(again)));
    std::filesystem::remove("/dev/shm" + to_string(other_user));
    CHECK_FALSE(exists(again));
}
