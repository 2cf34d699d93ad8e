// All interleavings of two users and a spiller, to eight steps, against the values that the memory holds.
#include <ferry/lease/detail/lease_state.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

namespace {

using ferry::detail::begun;
using ferry::detail::lease_state;
using place = lease_state::place;

/// The value on the device and its copy on the host; -1: no memory.
struct world {
    lease_state state;
    int device = 0, host = -1, written = 0;
    struct user {
        bool is_leased = false, is_preparing = false, writes = false;
        place before{};
    };
    std::array<user, 2> users{};
    bool is_spilling = false;
};

int paths = 0, spills = 0, returns = 0, waits = 0;

void begin(world w, int who, bool writes, bool needs_order, int steps);
void explore(world const& w, int steps);

void check(world const& w) {
    bool uses = false;
    for (auto const& u : w.users) uses = uses || u.is_leased;
    REQUIRE(w.state.is_used() == (uses || w.users[0].is_preparing || w.users[1].is_preparing));
    if (uses) {  // a lease keeps the memory, with the last value written
        REQUIRE(w.device == w.written);
        REQUIRE(w.state.at != place::away);
        REQUIRE_FALSE(w.is_spilling);
    }
    REQUIRE((w.device == w.written || w.host == w.written));  // nothing is lost
    int const movers = w.is_spilling + w.users[0].is_preparing + w.users[1].is_preparing;
    REQUIRE(movers == (w.state.at == place::moving ? 1 : 0));
}

void begin(world w, int who, bool writes, bool needs_order, int steps) {
    auto& u = w.users[static_cast<std::size_t>(who)];
    auto const before = w.state.at;
    switch (w.state.begin(writes, needs_order)) {
        case begun::wait: ++waits; return;
        case begun::granted: u = {true, false, writes, before}; break;
        case begun::prepare: u = {false, true, writes, before}; break;
    }
    explore(w, steps - 1);
}

void explore(world const& w, int steps) {
    check(w);
    if (steps == 0) return void(++paths);
    for (int who = 0; who < 2; ++who) {
        auto const& u = w.users[static_cast<std::size_t>(who)];
        if (u.is_preparing) {
            for (bool const is_ready : {true, false}) {
                auto next = w;
                auto& v = next.users[static_cast<std::size_t>(who)];
                if (is_ready && v.before == place::away) next.device = next.host, next.host = -1, ++returns;
                next.state.prepared(v.writes, is_ready, v.before);
                v.is_preparing = false;
                v.is_leased = is_ready;
                explore(next, steps - 1);
            }
        } else if (u.is_leased) {
            auto next = w;
            auto& v = next.users[static_cast<std::size_t>(who)];
            if (v.writes) next.device = ++next.written;
            next.state.end(v.writes);
            v.is_leased = false;
            explore(next, steps - 1);
        } else {
            for (bool const writes : {false, true})
                for (bool const needs_order : {false, true}) begin(w, who, writes, needs_order, steps);
        }
    }
    auto next = w;
    if (!w.is_spilling) {
        if (!next.state.leave()) return;
        next.is_spilling = true;
        explore(next, steps - 1);
    } else {
        for (bool const is_copied : {true, false}) {
            auto after = w;
            after.is_spilling = false;
            if (is_copied) after.host = after.device, after.device = -1, ++spills;
            after.state.left(is_copied);
            explore(after, steps - 1);
        }
    }
}

TEST_CASE("no interleaving of two users and a spiller loses a value, or moves memory that a lease uses") {
    explore({}, 8);
    CHECK(paths > 10000);
    CHECK(spills > 100);
    CHECK(returns > 100);
    CHECK(waits > 100);
}

TEST_CASE("quarantined memory does not leave, and leases of it are granted") {
    lease_state s;
    s.is_quarantined = true;
    CHECK_FALSE(s.leave());
    CHECK(s.begin(false, false) == begun::granted);
    s.end(false);
    CHECK_FALSE(s.leave());
}

TEST_CASE("memory is dropped when neither a handle nor a lease refers to it, and it does not move") {
    lease_state s;
    CHECK(s.begin(true, false) == begun::granted);
    s.handles = 0;
    CHECK_FALSE(s.is_dropped());
    s.end(true);
    CHECK(s.is_dropped());
    s.handles = 1;
    CHECK(s.leave());
    s.handles = 0;
    CHECK_FALSE(s.is_dropped());
    s.left(true);
    CHECK(s.is_dropped());
}

}  // namespace
