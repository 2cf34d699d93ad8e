#include <ferry/ipc/names.hpp>

#include <support/ipc.hpp>

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

using ferry::ipc::parse_segment_name;
using ferry::ipc::segment_name;

TEST_CASE("the name of a segment identifies its process, and is parsed to the same parts") {
    segment_name const n{1000, 4026531836, 4242, 123456789, 0xffff'ffff'ffff'ffff};
    CHECK(to_string(n) == "/ferry-1000-4026531836-4242-123456789-18446744073709551615");
    CHECK(parse_segment_name(to_string(n)) == n);
    segment_name const most{UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX};
    CHECK(parse_segment_name(to_string(most)) == most);
    CHECK(to_string(most).size() < 255);
    segment_name const without{1000, 4026531836, 4242, 123456789, 7, ferry::ipc::segment_kind::anonymous};
    CHECK(to_string(without) == "/ferry-memfd-1000-4026531836-4242-123456789-7");
    CHECK(parse_segment_name(to_string(without)) == without);
}

TEST_CASE("other texts are not names, so that no path leaves the folder") {
    for (auto const* text : {"",
                             "/",
                             "ferry-1-2-3-4-5",
                             "/ferry-",
                             "/ferry-1-2-3-4",
                             "/ferry-1-2-3-4-",
                             "/ferry-1-2-3-4-5-6",
                             "/ferry-1-2-3-4-5/",
                             "/ferry-01-2-3-4-5",
                             "/ferry-1-2-3-4-5\n",
                             "/ferry-1-2-3--4-5",
                             "/ferry-1-2-3-4-+5",
                             "/ferry-1-2-3-4- 5",
                             "/ferry-1-2-3-4-0x5",
                             "/ferry-memfd-",
                             "/ferry-memfd-1-2-3-4",
                             "/ferry-memfd1-2-3-4-5",
                             "/ferry-memfd-memfd-1-2-3-4-5",
                             "/../ferry-1-2-3-4-5",
                             "/ferry-1-2-3-4-../5",
                             "/ferry-1-2-4294967296-4-5",
                             "/ferry-1-2-3-4-18446744073709551616",
                             "/ferry-1-2-3-4-99999999999999999999"})
        CHECK_MESSAGE(!parse_segment_name(text), text);
    CHECK_FALSE(parse_segment_name(std::string_view{"/ferry-1-2-3-4-5\0", 17}));
}

TEST_CASE("an exporter that starts removes the segments of killed ones, and nothing else") {
    auto const me = ferry::ipc::this_process();
    auto const make = [](segment_name const& n) {
        std::ofstream{std::filesystem::path{"/dev/shm"} / to_string(n).substr(1)} << "x";
        return [n] { return std::filesystem::exists("/dev/shm" + to_string(n)); };
    };
    pid_t const killed = fork();
    REQUIRE(killed >= 0);
    if (killed == 0) pause();
    auto const start_time = [&] {
        ferry::ipc::detail::process_stat s;
        char text[1024];
        REQUIRE(ferry::ipc::detail::read_small(("/proc/" + std::to_string(killed) + "/stat").c_str(), text) > 0);
        REQUIRE(ferry::ipc::detail::parse_stat(text, s));
        return s.start_time;
    }();
    auto const pid = static_cast<std::uint32_t>(killed);
    auto const uid = std::uint64_t{geteuid()};
    auto const left = make({uid, me.pid_namespace, pid, start_time, 1});
    auto const reused = make({uid, me.pid_namespace, me.pid, me.start_time + 1, 2});
    auto const mine = make({uid, me.pid_namespace, me.pid, me.start_time, 3});
    auto const elsewhere = make({uid, me.pid_namespace + 1, 1u << 30, 4, 4});
    auto const another_user = make({uid + 1, me.pid_namespace, 1u << 30, 5, 5});
    CHECK(ferry::ipc::sweep(me) == 1);  // the reused process ID
    CHECK(left());
    CHECK_FALSE(reused());
    kill(killed, SIGKILL);
    siginfo_t ended;
    waitid(P_PID, pid, &ended, WEXITED | WNOWAIT);  // a zombie
    CHECK(ferry::ipc::sweep(me) == 1);
    CHECK_FALSE(left());
    waitpid(killed, nullptr, 0);
    CHECK(mine());
    CHECK(elsewhere());
    CHECK(another_user());
    for (auto const* const id : {"-3", "-4", "-5"})
        for (auto const& entry : std::filesystem::directory_iterator{"/dev/shm"})
            if (entry.path().string().ends_with(id)) std::filesystem::remove(entry);
}
