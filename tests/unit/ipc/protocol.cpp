// The rules of the lifetime protocol one by one; tests/unit/ipc/interleavings.cpp combines them in every order.
#include <ferry/ipc/exporter.hpp>
#include <ferry/ipc/importer.hpp>

#include "support/fails.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace ferry::ipc;
using namespace ferry::ipc::protocol;
using ferry::errc;

namespace {

std::vector<std::byte> const some{std::byte{1}, std::byte{2}};

exporter_limits limits() {
    exporter_limits l;
    l.clients = 3;
    l.leases = 3;
    l.waiting = 2;
    l.names = 2;
    l.lease = 100;
    l.time_to_live = 0;
    return l;
}

/// An exporter with two importers, of which 1 runs as its user.
struct scene {
    exporter e;
    explicit scene(exporter_limits l = limits()) : e{l} {
        REQUIRE(e.joined(1, true, 0));
        REQUIRE(e.joined(2, false, 0));
    }
    std::vector<message> said_to(std::uint64_t client) {
        std::vector<message> all;
        for (auto& o : e.take_orders())
            if (o.client == client && o.say) all.push_back(std::move(*o.say));
        return all;
    }
    /// Sends a request, and returns the one reply.
    message ask(std::uint64_t client, message const& m, instant now = 0) {
        said_to(0);
        e.received(client, m, now);
        auto all = said_to(client);
        REQUIRE(all.size() == 1);
        return all[0];
    }
    granted grant(std::uint64_t client, std::string name = "a", instant now = 0) {
        auto m = ask(client, attach{7, 0, 0, 0, std::move(name)}, now);
        REQUIRE(std::holds_alternative<granted>(m));
        return std::get<granted>(m);
    }
    reason refusal(std::uint64_t client, message const& m, instant now = 0) {
        auto const answer = ask(client, m, now);
        REQUIRE(std::holds_alternative<refused>(answer));
        return std::get<refused>(answer).why;
    }
    /// The events of the buffers as text.
    std::string events() {
        static char const* const words[] = {"acknowledged", "reusable", "freeable", "condemned", "removed"};
        std::string all;
        for (auto const& n : e.take_events())
            all += words[static_cast<int>(n.kind)] + std::string{" "} + std::to_string(n.buffer) + ", ";
        return all;
    }
};

}  // namespace

TEST_CASE("IPC: a grant has the descriptor, and only the first has file descriptors") {
    scene s;
    auto const generation = s.e.publish("a", 1, some, 2, 0);
    auto const first = s.grant(1), again = s.grant(1), other = s.grant(2);
    CHECK(first == granted{7, first.lease, 1, generation, 100, true, 2, some});
    CHECK(again == granted{7, again.lease, 1, generation, 100, false, 0, some});
    CHECK(other.fresh);
    CHECK(again.lease != first.lease);
    CHECK(other.lease != first.lease);
}

TEST_CASE(
    "IPC: a replaced buffer is reusable when the last reader acknowledges, and freeable when the last mapping is released") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    auto const one = s.grant(1), two = s.grant(2);
    s.e.publish("a", 2, some, 0, 0);
    CHECK(s.events() == "removed 1, ");
    s.e.received(1, acknowledge{one.lease, some}, 0);
    CHECK(s.events() == "acknowledged 1, ");
    CHECK(s.e.is_read(1));
    s.e.received(2, acknowledge{two.lease, {}}, 0);
    CHECK(s.events() == "acknowledged 1, reusable 1, ");
    CHECK_FALSE(s.e.is_read(1));
    s.e.received(1, release{1, one.lease}, 0);
    CHECK(s.events() == "");
    CHECK(s.e.held() == std::vector<std::uint64_t>{1});
    s.e.received(2, release{1, two.lease}, 0);
    CHECK(s.events() == "freeable 1, ");
    CHECK(s.e.is_idle());
}

TEST_CASE("IPC: the bytes of an acknowledgement reach the exporter") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    s.e.received(1, acknowledge{s.grant(1).lease, some}, 0);
    auto const news = s.e.take_events();
    REQUIRE(news.size() == 1);
    CHECK(news[0] == event{event::what::acknowledged, 1, 1, {}, some});
}

TEST_CASE("IPC: a buffer that was never granted is freeable as soon as its name is removed") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    CHECK(s.e.withdraw("a"));
    CHECK(s.events() == "removed 1, freeable 1, ");
    CHECK_FALSE(s.e.withdraw("a"));
}

TEST_CASE("IPC: a buffer that is published or read cannot be published") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    support::fails(errc::argument, [&] { s.e.publish("b", 1, some, 0, 0); }, {"published or read"});
    auto const g = s.grant(1);
    s.e.withdraw("a");
    support::fails(errc::argument, [&] { s.e.publish("a", 1, some, 0, 0); }, {"buffer 1"});
    s.e.received(1, acknowledge{g.lease, {}}, 0);
    s.e.publish("a", 1, some, 0, 0);
    CHECK_FALSE(s.grant(1).fresh);
}

TEST_CASE("IPC: an attach waits for a newer publication, up to its patience") {
    scene s;
    auto const first = s.e.publish("a", 1, some, 0, 0);
    s.said_to(0);
    s.e.received(1, attach{5, first, 0, 50, "a"}, 0);
    s.e.received(2, attach{6, first, 0, 10, "a"}, 0);
    CHECK(s.said_to(1).empty());
    CHECK(s.e.rest(0) == 10);
    s.e.tick(9);
    CHECK(s.said_to(2).empty());
    s.e.tick(10);
    CHECK(s.said_to(2) == std::vector<message>{refused{6, reason::not_published}});
    CHECK(s.e.rest(10) == 40);
    s.e.publish("b", 2, some, 0, 20);
    CHECK(s.said_to(1).empty());
    s.e.publish("a", 3, some, 0, 20);
    auto const said = s.said_to(1);
    REQUIRE(said.size() == 1);
    CHECK(std::get<granted>(said[0]).buffer == 3);
    CHECK(s.e.counts().waiting == 0);
}

TEST_CASE("IPC: without patience an attach gets an immediate reply") {
    scene s;
    CHECK(s.refusal(1, attach{1, 0, 0, 0, "a"}) == reason::not_published);
    auto const g = s.e.publish("a", 1, some, 0, 0);
    CHECK(s.refusal(1, attach{1, g, 0, 0, "a"}) == reason::not_published);
    CHECK(s.refusal(1, attach{1, 0, 0, 0, "A"}) == reason::not_published);
}

TEST_CASE("IPC: an attach ends the lease that it names as finished") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    auto const g = s.grant(1);
    s.e.received(1, attach{8, g.generation, g.lease, 10, "a"}, 0);
    CHECK_FALSE(s.e.is_read(1));
    s.e.publish("a", 2, some, 0, 0);
    CHECK(s.events() == "acknowledged 1, removed 1, reusable 1, ");
}

TEST_CASE("IPC: an importer cannot end the lease of another, or release a buffer that it does not hold") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    auto const g = s.grant(1);
    s.e.withdraw("a");
    s.events();
    s.e.received(2, acknowledge{g.lease, {}}, 0);
    s.e.received(2, release{1, UINT64_MAX}, 0);
    s.e.received(2, attach{1, 0, g.lease, 0, "a"}, 0);
    s.e.received(1, acknowledge{g.lease + 1, {}}, 0);
    s.e.received(1, release{2, UINT64_MAX}, 0);
    CHECK(s.e.is_read(1));
    CHECK(s.events() == "");
    s.e.received(1, acknowledge{g.lease, {}}, 0);
    s.e.received(1, acknowledge{g.lease, {}}, 0);
    CHECK(s.events() == "acknowledged 1, reusable 1, ");
}

TEST_CASE("IPC: a release does not end a lease that was granted while it was in transit") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    auto const first = s.grant(1), second = s.grant(1);
    s.e.received(1, release{1, first.lease}, 0);
    CHECK(s.e.is_read(1));
    CHECK(s.e.is_held(1));
    s.e.received(1, release{1, second.lease}, 0);
    CHECK_FALSE(s.e.is_held(1));
}

TEST_CASE("IPC: a lease and a publication of the maximum duration never end, and cause no busy polling") {
    auto forever = limits();
    forever.lease = forever.time_to_live = ~instant{0};
    scene s{forever};
    s.e.publish("a", 1, some, 0, 5);
    CHECK(std::holds_alternative<granted>(s.ask(1, attach{7, 0, 0, 0, "a"}, 10)));
    for (instant const now : {instant{10}, instant{10'000}, instant{1} << 40}) {
        s.e.tick(now);
        CHECK(s.e.rest(now) > instant{1} << 60);
        CHECK(s.e.is_published(1));
        CHECK(s.e.counts().condemned == 0);
    }
}

TEST_CASE("IPC: a lease that lapses condemns the buffer once, and frees nothing") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    auto const g = s.grant(1, "a", 1000);
    s.e.withdraw("a");
    s.events();
    CHECK(s.e.rest(1000) == 100);
    s.e.tick(1099);
    CHECK(s.events() == "");
    s.e.tick(1100);
    CHECK(s.events() == "condemned 1, ");
    CHECK(s.e.counts().condemned == 1);
    s.e.tick(100'000);
    CHECK(s.events() == "");
    CHECK(s.e.is_read(1));
    support::fails(errc::argument, [&] { s.e.publish("a", 1, some, 0, 0); }, {"published or read"});
    SUBCASE("a late acknowledgement frees it") {
        s.e.received(1, acknowledge{g.lease, {}}, 100'000);
        CHECK(s.events() == "acknowledged 1, reusable 1, ");
    }
    SUBCASE("the end of the importer frees it") {
        s.e.exited(1);
        CHECK(s.events() == "");
        s.e.hung_up(1);
        CHECK(s.events() == "freeable 1, ");
    }
    SUBCASE("a message renews it") {
        s.e.received(1, ping{1}, 100'000);
        CHECK(s.e.counts().condemned == 0);
        s.e.tick(100'099);
        CHECK(s.events() == "");
        s.e.tick(100'100);
        CHECK(s.events() == "condemned 1, ");
    }
}

TEST_CASE("IPC: messages renew leases") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    s.grant(1);
    for (instant now = 0; now < 1000; now += 99) {
        s.e.received(1, ping{1}, now);
        s.e.tick(now);
    }
    CHECK(s.events() == "");
}

TEST_CASE("IPC: an importer has ended when its process has exited and its socket is closed, in either order") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    s.grant(1);
    s.grant(2);
    s.e.withdraw("a");
    s.events();
    s.e.hung_up(1);
    s.e.exited(2);
    s.e.tick(99);
    CHECK(s.events() == "");
    CHECK(s.e.is_read(1));
    CHECK(s.e.is_held(1));
    s.e.exited(1);
    CHECK(s.e.is_read(1));
    s.e.hung_up(2);
    CHECK(s.events() == "freeable 1, ");
    CHECK(s.e.counts().clients == 0);
}

TEST_CASE("IPC: a disconnected importer is removed if it holds nothing, and otherwise counts against the limit") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    s.grant(1);
    s.e.hung_up(1);
    s.e.hung_up(2);
    CHECK_FALSE(s.e.knows(2));
    CHECK(s.e.knows(1));
    CHECK(s.e.joined(3, false, 0));
    CHECK(s.e.joined(4, false, 0));
    CHECK_FALSE(s.e.joined(5, false, 0));
}

TEST_CASE("IPC: no messages are sent to or accepted from a disconnected importer") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    auto const g = s.grant(1);
    s.e.received(1, attach{1, g.generation, 0, 1000, "a"}, 0);
    s.e.hung_up(1);
    s.said_to(0);
    s.e.publish("a", 2, some, 0, 0);
    s.e.received(1, acknowledge{g.lease, {}}, 0);
    s.e.retire(1);
    s.e.close();
    CHECK(s.said_to(1).empty());
    CHECK(s.e.is_read(1));
}

TEST_CASE("IPC: a message of an exporter sent by an importer closes the connection, and keeps its leases") {
    for (message const& m : {message{granted{}}, message{refused{}}, message{done{}}, message{closing{}},
                             message{withdrawn{}}, message{listing{}}, message{counted{}}}) {
        scene s;
        s.e.publish("a", 1, some, 0, 0);
        s.grant(1);
        s.e.received(1, m, 0);
        auto const orders = s.e.take_orders();
        REQUIRE(orders.size() == 2);
        CHECK(orders[0].say == message{refused{0, reason::bad_message}});
        CHECK_FALSE(orders[1].say.has_value());
        CHECK(s.e.is_read(1));
        CHECK(s.e.counts().violations == 1);
    }
}

TEST_CASE("IPC: the leases and requests of one importer are limited") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    for (int i = 0; i < 3; ++i) s.grant(1);
    CHECK(s.refusal(1, attach{1, 0, 0, 0, "a"}) == reason::too_many);
    s.grant(2);
    CHECK(s.e.counts().leases == 4);
    for (std::uint64_t i = 0; i < 2; ++i) s.e.received(2, attach{i, 99, 0, 1000, "a"}, 0);
    CHECK(s.refusal(2, attach{9, 99, 0, 1000, "a"}) == reason::too_many);
}

TEST_CASE("IPC: an evicted or expired name is reported, and its readers keep the buffer") {
    auto l = limits();
    l.time_to_live = 500;
    scene s{l};
    s.e.publish("a", 1, some, 0, 0);
    s.grant(1);
    s.e.publish("b", 2, some, 0, 0);
    s.e.publish("c", 3, some, 0, 0);
    CHECK(s.events() == "removed 1, ");
    CHECK(s.e.is_read(1));
    CHECK(s.e.counts().evicted == 1);
    s.e.received(1, ping{1}, 499);
    s.e.tick(500);
    CHECK(s.events() == "removed 2, freeable 2, removed 3, freeable 3, ");
    CHECK(s.e.counts().expired == 2);
}

TEST_CASE("IPC: beyond the limit the least recently used publication is evicted, never the new one") {
    scene s;
    auto const names = [&] {
        std::string all;
        auto const reply = std::get<listing>(s.ask(1, list{3, ""}));
        for (auto const& e : reply.entries) all += e.name + " ";
        return all;
    };
    s.e.publish("a", 1, some, 0, 0);
    s.e.publish("b", 2, some, 0, 0);
    s.grant(1, "a");
    s.e.publish("c", 3, some, 0, 0);
    CHECK(names() == "a c ");
    std::string left = "a d ";
    SUBCASE("a grant is a use") { s.grant(1, "a"); }
    SUBCASE("a wait is a use") { s.e.received(1, attach{7, 1, 0, 1000, "a"}, 0); }
    SUBCASE("a publication is a use") { left = "c d "; }
    s.e.publish("d", 4, some, 0, 0);
    CHECK(names() == left);
    s.e.publish("d", 5, some, 0, 0);  // the same name evicts no other
    CHECK(names().size() == 4);
    CHECK(s.e.counts().evicted == 2);
    auto none = limits();
    none.names = 0;
    s.e = exporter{none};
    REQUIRE(s.e.joined(1, true, 0));
    s.e.publish("a", 1, some, 0, 0);
    CHECK(names() == "a ");
}

TEST_CASE("IPC: a publication expires at the end of its time to live, and not before") {
    auto l = limits();
    l.time_to_live = 100;
    scene s{l};
    s.e.publish("a", 1, some, 0, 1000);
    s.e.publish("b", 2, some, 0, 1050);
    s.grant(1, "a", 1099);
    CHECK(s.refusal(1, attach{7, 0, 0, 0, "a"}, 1100) == reason::not_published);  // also before tick() was called
    s.e.tick(1099);
    CHECK(s.e.counts().expired == 0);
    s.e.tick(1100);
    CHECK(s.e.counts().expired == 1);
    CHECK_FALSE(s.e.is_published(1));
    CHECK(s.e.is_published(2));
}

TEST_CASE("IPC: an invalid publication is refused, and changes nothing") {
    auto l = limits();
    l.names = 1;
    scene s{l};
    auto const first = s.e.publish("a", 1, some, 0, 0);
    auto const before = s.e.counts();
    s.events();
    support::fails(errc::argument, [&] { s.e.publish("", 2, some, 0, 0); }, {"1 to 200 bytes"});
    support::fails(errc::argument, [&] { s.e.publish("a\n", 2, some, 0, 0); }, {"control characters"});
    support::fails(errc::argument, [&] { s.e.publish("b", 0, some, 0, 0); }, {"number buffers from 1"});
    support::fails(errc::argument, [&] { s.e.publish("b", 2, std::vector<std::byte>(60001), 0, 0); }, {"60000"});
    CHECK(s.events() == "");
    CHECK(s.e.counts() == before);
    CHECK(s.e.is_published(1));
    CHECK(s.e.publish("b", 2, some, 0, 0) == first + 1);
}

TEST_CASE("IPC: importers that hold a retired buffer are asked to release it") {
    scene s;
    s.e.publish("a", 1, some, 0, 0);
    auto const g = s.grant(1);
    s.e.withdraw("a");
    s.said_to(0);
    s.e.retire(1);
    auto const orders = s.e.take_orders();
    REQUIRE(orders.size() == 1);
    CHECK(orders[0].client == 1);
    CHECK(orders[0].say == message{withdrawn{1}});
    importer i;
    static_cast<void>(i.ask(attach{.name = "a"}));
    CHECK(i.received(granted{1, g.lease, 1, 1, 100, true, 0, {}}).has_value());
    CHECK_FALSE(i.received(withdrawn{1}).has_value());
    CHECK_FALSE(i.received(withdrawn{1}).has_value());
    CHECK_FALSE(i.received(withdrawn{2}).has_value());
    CHECK(i.withdrawn_buffers() == std::vector<std::uint64_t>{1});
    i.give_up(1);
    CHECK(i.withdrawn_buffers().empty());
    CHECK(i.take_orders().back() == message{release{1, g.lease}});
}

TEST_CASE("IPC: only the exporter's own user can drop names, and every importer can list them") {
    scene s;
    s.e.publish("a", 1, some, 0, 100);
    s.e.publish("b", 2, {}, 0, 100);
    s.grant(2, "a", 100);
    CHECK(s.refusal(2, drop{1, "a"}) == reason::permission);
    CHECK(s.refusal(1, drop{1, "x"}) == reason::not_published);
    auto const all = std::get<listing>(s.ask(2, list{3, ""}, 150));
    CHECK_FALSE(all.more);
    REQUIRE(all.entries.size() == 2);
    CHECK(all.entries[0] == entry{"a", 1, 1, 2, 50, 1, 1, 1});
    CHECK(all.entries[1] == entry{"b", 2, 2, 0, 50, 0, 0, 0});
    CHECK(std::get<listing>(s.ask(2, list{3, "a"}, 150)).entries.size() == 1);
    CHECK(s.ask(1, drop{4, "a"}) == message{done{4}});
    CHECK(s.refusal(1, attach{1, 0, 0, 0, "a"}) == reason::not_published);
}

TEST_CASE("IPC: long lists are sent in parts") {
    exporter_limits l;
    scene s{l};
    for (std::uint64_t i = 1; i <= 300; ++i) s.e.publish("n" + std::to_string(1000 + i), i, {}, 0, 0);
    std::string after;
    std::vector<std::size_t> parts;
    for (bool more = true; more;) {
        auto const part = std::get<listing>(s.ask(1, list{1, after}));
        parts.push_back(part.entries.size());
        after = part.entries.back().name;
        more = part.more;
    }
    CHECK(parts == std::vector<std::size_t>{128, 128, 44});
}

TEST_CASE("IPC: close replies to waiting importers, asks for the release of all buffers, and refuses new importers") {
    scene s;
    auto const g = s.e.publish("a", 1, some, 0, 0);
    auto const lease = s.grant(1).lease;
    s.e.received(2, attach{9, g, 0, 1000, "a"}, 0);
    s.said_to(0);
    s.events();
    s.e.close();
    auto const orders = s.e.take_orders();
    REQUIRE(orders.size() == 3);
    CHECK(orders[0].say == message{closing{}});
    CHECK(orders[1].say == message{refused{9, reason::closed}});
    CHECK(orders[2].say == message{closing{}});
    CHECK(s.events() == "removed 1, ");
    s.e.close();
    CHECK(s.e.take_orders().empty());
    CHECK(s.refusal(2, attach{1, 0, 0, 1000, "a"}) == reason::closed);
    CHECK_FALSE(s.e.joined(3, true, 0));
    support::fails(errc::exporter_gone, [&] { s.e.publish("a", 2, some, 0, 0); }, {"closed"});
    CHECK_FALSE(s.e.is_idle());
    s.e.received(1, release{1, lease}, 0);
    CHECK(s.e.is_idle());
    CHECK(s.events() == "freeable 1, ");
}

TEST_CASE("IPC: a grant for a forgotten request is released") {
    importer i;
    auto const request = i.ask(attach{.name = "a"});
    i.forget(request);
    static_cast<void>(i.take_orders());
    CHECK_FALSE(i.received(granted{request, 4, 1, 1, 100, true, 0, {}}).has_value());
    CHECK(i.take_orders() == std::vector<message>{release{1, 4}});
    CHECK_FALSE(i.holds(1));
    auto const kept = i.ask(attach{.name = "a"}), late = i.ask(attach{.name = "a"});
    static_cast<void>(i.take_orders());
    CHECK(i.received(granted{kept, 5, 1, 1, 100, true, 0, {}}).has_value());
    i.forget(late);
    CHECK_FALSE(i.received(granted{late, 6, 1, 1, 100, false, 0, {}}).has_value());
    CHECK(i.take_orders() == std::vector<message>{acknowledge{6, {}}});
    CHECK(i.holds(1));
}

TEST_CASE("IPC: a grant that crossed the release of its buffer is requested again, with file descriptors") {
    importer i;
    auto const request = i.ask(attach{0, 3, 0, 50, "a"});
    static_cast<void>(i.take_orders());
    CHECK_FALSE(i.received(granted{request, 4, 1, 4, 100, false, 0, {}}).has_value());
    CHECK(i.take_orders() == std::vector<message>{release{1, 4}, attach{request, 3, 0, 50, "a"}});
    CHECK(i.leases().empty());
    CHECK(i.received(granted{request, 5, 1, 4, 100, true, 0, {}}).has_value());
    CHECK(i.leases().size() == 1);
}

TEST_CASE("IPC: an importer acknowledges each lease once, and releases only buffers that it holds") {
    importer i;
    support::fails(errc::argument, [&] { i.finish(1); }, {"lease 1 is not held"});
    support::fails(errc::argument, [&] { static_cast<void>(i.ask(attach{0, 0, 1, 0, "a"})); }, {"lease 1"});
    auto const request = i.ask(attach{.name = "a"});
    static_cast<void>(i.received(granted{request, 4, 1, 4, 100, true, 0, {}}));
    support::fails(errc::argument, [&] { i.finish(4, std::vector<std::byte>(257)); }, {"256"});
    i.finish(4, some);
    support::fails(errc::argument, [&] { i.finish(4); }, {"once"});
    static_cast<void>(i.take_orders());
    i.give_up(2);
    CHECK(i.take_orders().empty());
    i.give_up_all();
    i.give_up_all();
    CHECK(i.take_orders() == std::vector<message>{release{1, 4}});
}

TEST_CASE("IPC: an importer refuses messages that exporters do not send") {
    for (message const& m : {message{attach{}}, message{acknowledge{}}, message{release{}}, message{ping{}},
                             message{list{}}, message{drop{}}, message{count{}}}) {
        importer i;
        support::fails(errc::bad_descriptor, [&] { static_cast<void>(i.received(m)); }, {"an importer's words"});
    }
    importer i;
    auto const asked = i.ask(attach{.name = "a"}), pinged = i.ask(ping{}), listed = i.ask(list{}),
               counting = i.ask(count{});
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(i.received(done{asked})); }, {"another question"});
    support::fails(errc::bad_descriptor,
                   [&] { static_cast<void>(i.received(granted{pinged, 1, 1, 1, 1, true, 0, {}})); },
                   {"another question"});
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(i.received(counted{listed, {}})); },
                   {"another question"});
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(i.received(listing{counting, false, {}})); },
                   {"another question"});
    CHECK_FALSE(i.received(done{99}).has_value());
    CHECK_FALSE(i.received(refused{99, reason::closed}).has_value());
    CHECK_FALSE(i.received(refused{0, reason::permission}).has_value());
    CHECK(i.refused_because() == reason::permission);
}
