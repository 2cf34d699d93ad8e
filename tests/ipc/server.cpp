// The lifetime protocol between real processes: frames, killed and stopped processes on either side, and close.
#include "lifetime.hpp"

#include <ferry/wire/binary.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/ipc.hpp>

#include <atomic>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace lifetime;

namespace {

/// An importer that stops at a step: reports it, and waits to be killed.
int import_up_to(std::string const& path, talk with, char step) {
    auto const here = [&](char reached) {
        if (reached != step) return;
        with.say(reached);
        static_cast<void>(with.hear());
    };
    client c{path, patient};
    here('c');  // connected
    if (step == 'w') {
        with.say('w');  // waits for a publication that does not exist
        static_cast<void>(c.attach("nothing", {.patience = milliseconds{60'000}}));
    }
    auto g = c.attach("frame", {.patience = support::patience});
    if (!g) return 1;
    here('g');  // granted
    memory const mapped{std::move(g->fds.at(0))};
    here('m');  // mapped
    c.acknowledge(g->lease);
    here('a');  // acknowledged, and still mapped
    auto again = c.attach("frame");
    here('r');  // reads again
    c.release(g->buffer);
    here('x');  // released
    c.close();
    here('e');  // disconnected
    return 0;
}

/// An exporter that stops at a step.
int export_up_to(std::string const& path, talk with, char step) {
    auto const here = [&](char reached) {
        if (reached != step) return;
        with.say(reached);
        static_cast<void>(with.hear());
    };
    memory one, two;
    one.fill(1);
    two.fill(2);
    server s{path};
    here('l');  // listens
    publish(s, 1, one);
    here('p');  // published
    if (step == 'g') {
        with.say('g');  // serves, until it is killed
        for (;;) s.poll(milliseconds{10});
    }
    with.say('s');
    if (!serve_until(s, [&] { return s.counts().leases == 1; })) return 1;
    s.withdraw("frame");
    s.retire(1);
    here('r');  // asked for its release
    publish(s, 2, two);
    s.close(milliseconds{0});
    here('e');  // closed
    return 0;
}

}  // namespace

TEST_CASE("IPC: frames are complete although the producer writes as soon as a buffer is reusable") {
    place here;
    auto const frames = static_cast<std::uint64_t>(environment("FERRY_IPC_FRAMES", 10'000));
    memory buffers[2];  // the minimum: a producer that does not wait overwrites a frame that is read
    server s{here.path()};
    process importers[2]{process{[&](talk) {
                             client c{here.path(), patient};
                             std::map<std::uint64_t, memory> mapped;
                             std::uint64_t lease = 0, seen = 0;
                             while (seen < frames) {
                                 auto g = c.attach(
                                     "frame", {.after = seen, .patience = support::patience, .finished = lease});
                                 if (!g) return 1;
                                 if (g->fresh) mapped.emplace(g->buffer, memory{std::move(g->fds.at(0))});
                                 if (!mapped.at(g->buffer).is(g->generation) || !mapped.at(g->buffer).is(g->generation))
                                     return 2;
                                 seen = g->generation;
                                 lease = g->lease;
                             }
                             return 0;
                         }},
                         process{[&](talk) {
                             client c{here.path(), patient};
                             for (std::uint64_t seen = 0; seen < frames;) {
                                 auto g = c.attach("frame", {.after = seen, .patience = support::patience});
                                 if (!g) return 1;
                                 memory mapped{std::move(g->fds.at(0))};  // a new mapping each time
                                 if (!mapped.is(g->generation) || !mapped.is(g->generation)) return 2;
                                 seen = g->generation;
                                 c.release(g->buffer);
                             }
                             return 0;
                         }}};
    REQUIRE(serve_until(s, [&] { return s.counts().waiting == 2; }));
    for (std::uint64_t generation = 1; generation <= frames; ++generation) {
        std::uint64_t free = 0;
        REQUIRE(serve_until(s, [&] {
            for (std::uint64_t b = 1; b <= 2 && free == 0; ++b)
                if (s.is_reusable(b)) free = b;
            return free != 0;
        }));
        buffers[free - 1].fill(generation);
        REQUIRE(publish(s, free, buffers[free - 1]) == generation);
    }
    CHECK(serve_until(s, [&] { return s.counts().clients == 0; }));
    for (auto& i : importers) CHECK(i.wait() == 0);
    CHECK(s.held().empty());
    MESSAGE(frames, " frames, read ", s.counts().grants, " times");
    CHECK(s.counts().grants > frames / 20);
}

TEST_CASE("IPC: an anonymous tensor is sent with its file descriptor, and is freed when its exporter is killed") {
    place here;
    process exporter{[&](talk with) {
        ferry::ipc::session own{{.segments = ferry::ipc::segment_kind::anonymous}};
        auto const s = ferry::ipc::share(support::tensor({1000}), {.session = &own});
        int const file = s.file();
        server serving{here.path()};
        serving.publish("numbers", 1, ferry::wire::to_bytes(s.descriptor()), {&file, 1});
        with.say('p');
        for (;;) serving.poll(milliseconds{10});
        return 0;
    }};
    REQUIRE(exporter.hear() == 'p');
    client c{here.path(), patient};
    auto const g = c.attach("numbers", {.patience = support::patience});
    REQUIRE(g);
    REQUIRE(g->fds.size() == 1);
    auto const d = ferry::wire::from_bytes(g->descriptor);
    int const file = g->fds[0].get();
    auto const a = ferry::ipc::attach(d, {.files = {&file, 1}});
    CHECK(support::values(a)[999] == 999);
    exporter.kill(SIGKILL);
    CHECK(exporter.wait() == -SIGKILL);
    CHECK(support::segments(exporter.pid()).empty());
    CHECK(support::values(a)[999] == 999);
    support::fails(errc::exporter_gone, [&] { static_cast<void>(ferry::ipc::attach(d, {.files = {&file, 1}})); });
}

TEST_CASE("IPC: the buffers of an importer killed at any step are free again, and the next importer is served") {
    for (char const step : std::string{"cwgmarxe"}) {
        INFO("killed when it was at step ", step);
        place here;
        memory frame;
        server s{here.path()};
        publish(s, 1, frame);
        int const fds = support::count_of("fd");
        {
            process importer{[&](talk with) { return import_up_to(here.path(), with, step); }};
            REQUIRE(serve_until(s, [&] { return s.counts().clients == 1 || step == 'e'; }));
            REQUIRE(serve_until(s, [&] {
                auto const n = s.counts();
                switch (step) {
                    case 'w': return n.waiting == 1;
                    case 'g':
                    case 'm': return n.leases == 1;
                    case 'a': return n.grants == 1 && n.leases == 0;
                    case 'r': return n.grants == 2;
                    case 'x': return n.grants == 2 && s.held().empty();
                    case 'e': return n.grants == 2 && n.clients == 0;
                    default: return true;
                }
            }));
            CHECK(importer.hear() == step);
            bool const reads = step == 'g' || step == 'm' || step == 'r', holds = reads || step == 'a';
            s.withdraw("frame");
            CHECK(s.is_reusable(1) != reads);
            CHECK(s.is_freeable(1) != holds);
            importer.kill(SIGKILL);
            CHECK(serve_until(s, [&] { return s.counts().clients == 0; }));
            CHECK(s.is_freeable(1));
        }
        CHECK(support::count_of("fd") == fds - 1);  // without the server's duplicate of the frame's descriptor
        publish(s, 1, frame);
        auto const before = s.counts().grants;
        process next{[&](talk with) { return import_up_to(here.path(), with, '-'); }};
        CHECK(serve_until(
            s, [&] { return s.counts().grants == before + 2 && s.counts().clients == 0 && s.held().empty(); }));
        CHECK(next.wait() == 0);
    }
}

TEST_CASE("IPC: importers notice an exporter killed at any step and keep their mappings, and another one can start") {
    for (char const step : std::string{"lpgre"}) {
        INFO("killed when it was at step ", step);
        place here;
        process exporter{[&](talk with) { return export_up_to(here.path(), with, step); }};
        char const first = exporter.hear();
        REQUIRE(first == (step == 'l' || step == 'p' || step == 'g' ? step : 's'));
        client c{here.path(), {.exporters = {}, .timeout = milliseconds::max()}};  // the patience does not end
        std::vector<memory> mapped;
        if (step == 'g' || step == 'r' || step == 'e') {
            auto g = c.attach("frame", {.patience = support::patience});
            REQUIRE(g);
            mapped.emplace_back(std::move(g->fds.at(0)));
            if (step != 'g') REQUIRE(exporter.hear() == step);
            if (step == 'r') CHECK(c.withdrawn() == std::vector<std::uint64_t>{1});
            if (step == 'e') CHECK(c.is_closing());
        }
        CHECK_FALSE(c.is_gone());
        exporter.kill(SIGKILL);
        CHECK(exporter.wait() == -SIGKILL);
        support::fails(errc::exporter_gone,
                       [&] { static_cast<void>(c.attach("frame", {.patience = std::chrono::hours{1}})); });
        CHECK(c.is_gone());
        for (auto const& m : mapped) CHECK(m.is(1));
        c.close();
        process next{[&](talk with) { return export_up_to(here.path(), with, 'g'); }};
        REQUIRE(next.hear() == 'g');
        client again{here.path(), patient};
        CHECK(again.attach("frame").has_value());
    }
}

TEST_CASE("IPC: the buffer of a stopped importer is condemned until its acknowledgement or its exit") {
    for (bool const goes_on : {true, false}) {
        place here;
        memory frame;
        frame.fill(7);
        server_options options;
        options.limits.lease = 50;
        server s{here.path(), options};
        publish(s, 1, frame);
        process importer{[&](talk with) {
            client c{here.path(), patient};
            auto g = c.attach("frame", {.patience = support::patience});
            if (!g) return 1;
            memory const mapped{std::move(g->fds.at(0))};
            with.say('g');
            if (with.hear() != 'a') return 2;  // stopped here
            bool const intact = mapped.is(7);
            c.acknowledge(g->lease);
            if (with.hear() != 'e') return 3;
            return intact ? 0 : 4;
        }};
        REQUIRE(serve_until(s, [&] { return s.counts().leases == 1; }));
        REQUIRE(importer.hear() == 'g');
        importer.kill(SIGSTOP);
        s.withdraw("frame");
        CHECK(serve_until_told(s, event::what::condemned));
        for (int i = 0; i < 20; ++i) {
            s.poll(milliseconds{10});
            REQUIRE_FALSE(s.is_reusable(1));
        }
        support::fails(errc::argument, [&] { publish(s, 1, frame); }, {"published or read"});
        CHECK(s.counts().condemned == 1);
        if (goes_on) {
            importer.say('a');
            importer.kill(SIGCONT);
            CHECK(serve_until_told(s, event::what::reusable));
            CHECK(s.is_reusable(1));
            CHECK_FALSE(s.is_freeable(1));
            importer.say('e');
            CHECK(importer.wait() == 0);
        } else {
            importer.kill(SIGKILL);
        }
        CHECK(serve_until_told(s, event::what::freeable));
    }
}

TEST_CASE("IPC: a stopped exporter is reported as not replying, and its late grant is released") {
    place here;
    process exporter{[&](talk with) {
        memory frame;
        server s{here.path()};
        publish(s, 1, frame);
        with.say('l');
        if (!serve_until(s, [&] { return s.counts().grants == 1; })) return 1;
        return serve_until(s, [&] { return s.held().empty() && s.counts().leases == 0; }) ? 0 : 2;
    }};
    REQUIRE(exporter.hear() == 'l');
    client c{here.path(), {.exporters = {}, .timeout = milliseconds{200}}};
    exporter.kill(SIGSTOP);
    support::fails(errc::exporter_gone, [&] { static_cast<void>(c.attach("frame", {.patience = milliseconds{100}})); },
                   {"does not answer"});
    CHECK_FALSE(c.is_gone());
    exporter.kill(SIGCONT);
    CHECK(soon([&] { return c.is_gone(); }));  // closed: all buffers are released
    CHECK(exporter.wait() == 0);
}

TEST_CASE("IPC: a client can close although a stopped exporter reads no messages") {
    place here;
    process exporter{[&](talk with) {
        memory frame;
        server s{here.path()};
        publish(s, 1, frame);
        with.say('l');
        for (;;) s.poll(milliseconds{10});
        return 0;
    }};
    REQUIRE(exporter.hear() == 'l');
    client c{here.path(), {.exporters = {}, .timeout = milliseconds{1}}};
    exporter.kill(SIGSTOP);
    for (int i = 0; i < 500; ++i) support::fails(errc::exporter_gone, [&] { c.ping(); });  // until the socket is full
    c.close();
    c.close();
}

TEST_CASE_FIXTURE(a_server, "IPC: close waits for importers up to its limit, and poll then reports their end") {
    process importer{[&](talk with) {
        client c{here.path(), patient};
        auto g = c.attach("frame", {.patience = support::patience});
        with.say('g');
        return with.hear();
    }};
    REQUIRE(serve_until(s, [&] { return s.counts().leases == 1; }));
    REQUIRE(importer.hear() == 'g');
    importer.kill(SIGSTOP);
    SUBCASE("in the caller's thread") {}
    SUBCASE("with a thread of its own") { s.start(); }
    CHECK_FALSE(s.close(std::chrono::hours{1}));  // two seconds at most
    CHECK_FALSE(s.close());
    CHECK(::access(here.path().c_str(), F_OK) != 0);
    CHECK(s.held() == std::vector<std::uint64_t>{1});
    support::fails(errc::exporter_gone, [&] { client{here.path()}; });
    importer.kill(SIGKILL);
    CHECK(serve_until_told(s, event::what::freeable));
    CHECK(s.close());
}

TEST_CASE_FIXTURE(a_server, "IPC: close returns as soon as importers have released") {
    process importer{[&](talk) {
        client c{here.path(), patient};
        auto g = c.attach("frame", {.patience = support::patience});
        while (!c.is_closing()) std::this_thread::sleep_for(milliseconds{1});
        c.release(g->buffer);
        return code_of([&] { static_cast<void>(c.attach("frame")); }) == errc::exporter_gone ? 0 : 1;
    }};
    REQUIRE(serve_until(s, [&] { return s.counts().leases == 1; }));
    auto const begin = std::chrono::steady_clock::now();
    bool const is_free = s.close();  // false only if the importer, or this process, is suspended for two seconds
    CHECK((is_free || std::chrono::steady_clock::now() - begin >= server::longest_close));
    CHECK(serve_until(s, [&] { return s.held().empty(); }));
    CHECK(s.close());
    CHECK(importer.wait() == 0);
}

TEST_CASE_FIXTURE(a_server, "IPC: a forked child of an importer keeps the buffer until it has exited as well") {
    process importer{[&](talk with) {
        client c{here.path(), patient};
        auto g = c.attach("frame", {.patience = support::patience});
        if (!g) return 1;
        if (::fork() == 0) {
            with.say(code_of([&] { c.ping(); }) == errc::argument ? 'c' : 'x');
            static_cast<void>(with.hear());  // it may read the memory that it inherited
            ::_exit(0);                      // its client sends nothing for the parent
        }
        static_cast<void>(with.hear());
        ::_exit(0);
    }};
    REQUIRE(serve_until(s, [&] { return s.counts().leases == 1; }));
    REQUIRE(importer.hear() == 'c');
    s.withdraw("frame");
    importer.say('e');  // either of the two exits
    for (int i = 0; i < 20; ++i) s.poll(milliseconds{10});
    CHECK_FALSE(s.is_reusable(1));
    importer.say('e');
    CHECK(serve_until_told(s, event::what::freeable));
}

TEST_CASE_FIXTURE(a_running_server, "IPC: a client destroyed in a forked child releases nothing") {
    client c{here.path(), patient};
    auto const g = c.attach("frame");
    REQUIRE(g);
    auto const child = ::fork();
    if (child == 0) {
        c.close();
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    c.ping();
    CHECK(s.counts().leases == 1);
    c.release(1);
    c.ping();
    CHECK(s.held().empty());
}

TEST_CASE("IPC: a held memfd is attached again after the session of the importer has dropped its mapping") {
    place here;
    server s{here.path()};
    s.start();
    ferry::ipc::session exporter{{.segments = ferry::ipc::segment_kind::anonymous}}, importer{{.unused_mappings = 0}};
    auto const shared = ferry::ipc::share(support::tensor({3}), {.session = &exporter});
    int const file = shared.file();
    s.publish("frame", 1, ferry::wire::to_bytes(shared.descriptor()), {&file, 1});
    client c{here.path(), patient};
    int before = 0;
    for (int i = 0; i < 3; ++i) {
        {
            auto const g = c.attach("frame");
            REQUIRE(g);
            CHECK(g->fresh == (i == 0));
            REQUIRE(g->fds.size() == 1);
            int const received = g->fds[0].get();
            auto const t = ferry::ipc::attach(ferry::wire::from_bytes(g->descriptor),
                                              {.session = &importer, .files = {&received, 1}});
            CHECK(support::values(t)[2] == 2);
            c.acknowledge(g->lease);
        }
        if (i == 0) before = support::count_of("fd");
        CHECK(importer.counts().mappings == 0);
        CHECK(support::count_of("fd") == before);
    }
    c.release(1);
    CHECK(soon([&] { return support::count_of("fd") == before - 1; }));
}

TEST_CASE("IPC: a server destroyed in a forked child does not affect that of its parent") {
    place here;
    std::optional<server> s{here.path()};
    s->start();
    std::thread waiting{[&] { s->poll(milliseconds{500}); }};  // a thread of the parent waits for events
    client c{here.path(), patient};
    std::this_thread::sleep_for(milliseconds{50});
    auto const child = ::fork();
    if (child == 0) {
        s.reset();
        ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    waiting.join();
    c.ping();
    client{here.path(), patient}.ping();
}

TEST_CASE("IPC: a started server can be used from any thread") {
    place here;
    memory frames[2];
    server s{here.path()};
    s.start();
    s.start();
    constexpr std::uint64_t rounds = 300;
    std::atomic<std::uint64_t> read = 0;
    std::atomic<bool> is_over = false;
    std::thread reader{[&] {
        errc const failed = code_of([&] {
            client c{here.path(), {.exporters = {}, .timeout = support::patience}};
            for (std::uint64_t lease = 0; read < rounds;) {
                auto const g = c.attach("frame", {.after = read, .patience = support::patience, .finished = lease});
                if (!g || g->generation != read + 1) return;
                lease = g->lease;
                ++read;
            }
        });
        if (failed != errc::ok) read = 1000 + static_cast<std::uint64_t>(failed);
    }};
    std::thread asks{[&] {
        while (!is_over) {
            static_cast<void>(s.held());
            static_cast<void>(s.is_freeable(1));
            std::this_thread::yield();
        }
    }};
    bool goes_on = true;
    for (std::uint64_t i = 0; i < rounds && goes_on; ++i) {
        // It has finished the previous frame and waits for this one, so it reads all frames, also if a thread is late.
        goes_on = soon([&] { return s.counts().waiting == 1; }) && s.is_reusable(1 + i % 2);
        if (goes_on) publish(s, 1 + i % 2, frames[i % 2]);
    }
    CHECK(goes_on);
    is_over = true;
    asks.join();
    reader.join();
    CHECK(read == rounds);
    CHECK(soon([&] { return s.counts().clients == 0; }));
    CHECK(s.counts().grants == rounds);
    std::uint64_t acknowledged = 0;
    for (auto const& e : s.poll(milliseconds{0})) acknowledged += e.kind == event::what::acknowledged;
    CHECK(acknowledged == rounds - 1);  // the last lease ended with its reader
    CHECK(s.close());
}

TEST_CASE_FIXTURE(a_server, "IPC: a refused publication keeps no file open, and leaves the buffer unchanged") {
    auto const open = support::open_files();
    int const fd = frame.fd.get();
    std::byte const text[8] = {};
    for (std::uint64_t buffer = 2; buffer < 20; ++buffer)
        CHECK(code_of([&] { s.publish("", buffer, text, std::span{&fd, 1}); }) == errc::argument);
    std::vector<int> const many(9, fd);
    support::fails(errc::argument, [&] { s.publish("frame", 2, text, many); }, {"9 file descriptors", "compact"});
    int const with_none[] = {fd, -1};
    support::fails(errc::argument, [&] { s.publish("frame", 2, text, with_none); }, {"fds[1] is -1", "another memory"});
    CHECK(support::open_files() == open);
    publish(s, 2, frame);
    s.withdraw("frame");
    CHECK(code_of([&] { s.publish("", 2, text); }) == errc::argument);
    publish(s, 2, frame);  // with its file
    CHECK(s.close());
}

TEST_CASE("IPC: close ends the thread although memory for its messages cannot be allocated") {
    place here;
    bool failed = true;
    for (int n = 1; failed; ++n) {
        INFO("allocation ", n, " fails");
        std::optional<server> s{std::in_place, here.path()};
        s->start();
        s->publish("frame", 1, some);
        client c{here.path(), patient};
        REQUIRE(c.attach("frame"));
        {
            support::allocation_window const window{n};
            s.reset();
            failed = window.has_failed();
        }
        REQUIRE(n < 1000);
    }
}

TEST_CASE_FIXTURE(a_server,
                  "IPC: a server that runs out of memory still detects the exit of importers, and serves the next") {
    bool failed = true;
    for (int n = 1; failed; ++n) {
        INFO("allocation ", n, " fails");
        {
            client c{here.path(), patient};
            support::allocation_window const window{n};
            try {
                s.poll(milliseconds{0});
            } catch (std::bad_alloc const&) {
            }
            failed = window.has_failed();
        }
        REQUIRE(serve_until(s, [&] { return s.counts().clients == 0; }));
        REQUIRE(n < 1000);
    }
    CHECK(s.close());
}

TEST_CASE_FIXTURE(a_running_server, "IPC: many rounds of attach and close leave no file descriptor and no mapping") {
    auto const frames_mapped = [] {
        std::ifstream maps{"/proc/self/maps"};
        int n = 0;
        for (std::string line; std::getline(maps, line);) n += line.find("/memfd:frame") != line.npos;
        return n;
    };
    auto const rounds = environment("FERRY_IPC_ROUNDS", 10'000);
    int fds = 0;
    long round = 0;
    auto const no_client = [&] { return s.counts().clients == 0; };
    auto const state = [&] {
        auto const left = s.counts();
        std::ostringstream out;
        out << ": no client, after round " << round << "; there are " << left.clients << " clients, " << left.leases
            << " leases, " << left.waiting << " waiting, " << left.condemned << " condemned, " << left.violations
            << " violations, " << s.held().size() << " buffers held";
        return out.str();
    };
    for (; round < rounds; ++round) {
        auto const i = round;
        {
            client c{here.path(), patient};
            auto g = c.attach("frame");
            REQUIRE(g);
            memory const mapped{std::move(g->fds.at(0))};
            if (i % 3 == 0) c.acknowledge(g->lease);
            if (i % 3 != 2) c.release(g->buffer);
        }
        if (i % 100 == 99) s.poll(milliseconds{0});
        if (i == 9) {
            REQUIRE(soon(no_client, state));
            fds = support::count_of("fd");
        }
    }
    REQUIRE(soon(no_client, state));
    CHECK(s.held().empty());
    CHECK(support::count_of("fd") == fds);
    CHECK(frames_mapped() == 1);
}
