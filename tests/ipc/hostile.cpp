// The lifetime protocol with misbehaving peers: other users, malformed messages, clients that do not read, and
// exhausted file descriptors.
#include "lifetime.hpp"
#include "support/skip.hpp"

#include <atomic>
#include <ctime>
#include <grp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/un.h>

using namespace lifetime;
namespace protocol = ferry::ipc::protocol;
namespace raw = ferry::ipc::socket;

namespace {

/// Timeout of the last poll(2) of a server in this thread, in milliseconds, and number of calls that found an event.
thread_local int poll_timeout = 0, polls_ready = 0;

}  // namespace

/// Replaces poll(2) of the system and records these: a server polls at least its listener and its eventfd.
extern "C" int poll(pollfd* fds, nfds_t count, int timeout) {
    timespec const limit{timeout / 1000, timeout % 1000 * 1'000'000L};
    int const ready = ::ppoll(fds, count, timeout < 0 ? nullptr : &limit, nullptr);
    if (count >= 2) poll_timeout = timeout, polls_ready += ready > 0;
    return ready;
}

namespace {

constexpr uid_t nobody = 65534;

/// A connected socket that does not follow the protocol.
ferry::ipc::unique_fd connect_raw(std::string const& path) {
    auto fd = raw::make("test");
    REQUIRE(raw::connect(fd.get(), raw::address(path, "test")) == 0);
    return fd;
}
void send_raw(ferry::ipc::unique_fd const& to, std::vector<std::byte> const& bytes,
              std::span<ferry::ipc::unique_fd const> fds = {}) {
    static_cast<void>(raw::send(to.get(), bytes, fds));
}
/// A socket that listens at the path of a server.
ferry::ipc::unique_fd listen_raw(std::string const& path) {
    auto fd = raw::make("test");
    auto const at = raw::address(path, "test");
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr const*>(&at), sizeof at) == 0);
    REQUIRE(::listen(fd.get(), 8) == 0);
    return fd;
}
ferry::ipc::unique_fd accept_raw(ferry::ipc::unique_fd const& from) {
    pollfd p{from.get(), POLLIN, 0};
    REQUIRE(::poll(&p, 1, static_cast<int>(milliseconds{support::patience}.count())) == 1);
    return ferry::ipc::unique_fd{::accept4(from.get(), nullptr, nullptr, SOCK_CLOEXEC)};
}
/// Limits this process to the file descriptors that it has.
struct no_fds_left {
    rlimit usual{};
    no_fds_left() {
        ::getrlimit(RLIMIT_NOFILE, &usual);
        int const next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::close(next);
        rlimit const limit{static_cast<rlim_t>(next), usual.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    void lift() const { ::setrlimit(RLIMIT_NOFILE, &usual); }
};
bool hung_up(ferry::ipc::unique_fd const& fd) {
    std::vector<std::byte> room(protocol::max_message);
    auto const r = raw::receive(fd.get(), room, false);
    return r.error != EAGAIN && (r.error != 0 || r.size == 0);
}

}  // namespace

TEST_CASE("IPC: socket and directory of a server are accessible to its user only, whatever the umask") {
    place here;
    auto const before = ::umask(0);
    struct stat is{};
    {
        server s{here.folder + "/made/socket"};
        REQUIRE(::stat((here.folder + "/made").c_str(), &is) == 0);
        CHECK((is.st_mode & 0777) == 0700);
        REQUIRE(::stat(s.path().c_str(), &is) == 0);
        CHECK((is.st_mode & 0777) == 0600);
    }
    CHECK(::stat((here.folder + "/made/socket").c_str(), &is) != 0);
    ::rmdir((here.folder + "/made").c_str());
    server grouped{here.path(), {.allow = {}, .mode = 0660, .limits = {}}};
    REQUIRE(::stat(here.path().c_str(), &is) == 0);
    CHECK((is.st_mode & 0777) == 0660);
    ::umask(before);
    support::fails(errc::argument, [&] { server{here.folder + "/x", {.allow = {}, .mode = 0666, .limits = {}}}; },
                   {"0600 or 0660"});
}

TEST_CASE("IPC: a directory that other users can write to is refused for a socket") {
    place here;
    for (mode_t const mode : {0777U, 0770U, 0702U}) {
        REQUIRE(::chmod(here.folder.c_str(), mode) == 0);
        support::fails(errc::permission, [&] { server{here.path()}; }, {"others may write"});
    }
    REQUIRE(::chmod(here.folder.c_str(), 0700) == 0);
    auto const link = here.folder + "-link";
    REQUIRE(::symlink(here.folder.c_str(), link.c_str()) == 0);
    support::fails(errc::permission, [&] { server{link + "/socket"}; });
    ::unlink(link.c_str());
    support::fails(errc::argument, [&] { server{here.folder + "/" + std::string(108, 'x')}; }, {"107"});
}

TEST_CASE("IPC: a directory of another user is refused for a socket" * doctest::skip(support::lacks_root())) {
    place here;
    REQUIRE(::chown(here.folder.c_str(), nobody, nobody) == 0);
    support::fails(errc::permission, [&] { server{here.path()}; }, {"belongs to user 65534"});
    REQUIRE(::chown(here.folder.c_str(), 0, 0) == 0);
}

TEST_CASE(
    "IPC: a missing parent directory, and a directory that another process keeps locked, are errors that say so") {
    place here;
    support::fails(errc::argument, [&] { server{here.folder + "/none/such/socket"}; }, {"make the directory above"});
    ferry::ipc::unique_fd lock{::open(here.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    REQUIRE(::flock(lock.get(), LOCK_EX) == 0);
    support::fails(errc::permission, [&] { server{here.path()}; }, {"locked", "0700"});
    lock = {};
    server{here.path()};
}

TEST_CASE_FIXTURE(a_running_server, "IPC: a name too long for a message fails only its own request") {
    {
        client c{here.path(), patient};
        REQUIRE(c.attach("frame"));
        s.withdraw("frame");
        for (int const length : {201, 65'536 + 5, 200'000}) {
            std::string const name(static_cast<std::size_t>(length), 'x');
            support::fails(errc::argument, [&] { static_cast<void>(c.attach(name)); }, {"200"});
            support::fails(errc::argument, [&] { static_cast<void>(c.drop(name)); }, {"200"});
        }
        CHECK_FALSE(c.attach(std::string(200, 'x')));
    }
    CHECK(soon([&] { return s.is_freeable(1); }));
    CHECK(s.counts().violations == 0);
}

TEST_CASE("IPC: a server whose leases never lapse polls for at most its timeout") {
    place here;
    // A conversion to int would take the lower half of both: for ever, or no wait.
    for (auto const lease : {~std::uint64_t{0}, std::uint64_t{1} << 33}) {
        server_options options;
        options.limits.lease = lease;
        server s{here.path(), options};
        s.poll(milliseconds{50});
        CHECK(poll_timeout > 0);
        CHECK(poll_timeout <= 50);
    }
}

TEST_CASE("IPC: a client with the maximum timeout waits for its exporter") {
    place here;
    server s{here.path()};
    std::thread later{[&] { s.start(); }};
    client c{here.path(), {.exporters = {}, .timeout = milliseconds::max()}};
    c.ping();
    later.join();
    std::thread publishing{[&] {
        s.publish("frame", 1, some);
        s.withdraw("frame");
    }};
    CHECK_FALSE(s.poll(milliseconds::max()).empty());
    publishing.join();
}

TEST_CASE("IPC: a socket in use is not replaced, a stale one is, and no other file is removed") {
    place here;
    {
        server s{here.path()};
        support::fails(errc::argument, [&] { server{here.path()}; }, {"served by another"});
        s.start();
        client{here.path(), patient}.ping();
        support::fails(errc::argument, [&] { server{here.path()}; }, {"served by another"});
    }
    {
        auto const left = listen_raw(here.path());
    }
    REQUIRE(::access(here.path().c_str(), F_OK) == 0);
    {
        server s{here.path()};
        s.start();
        client{here.path(), patient}.ping();
        // Another process has removed the socket and listens at its path.
        ::unlink(here.path().c_str());
        auto const other = listen_raw(here.path());
        s.close();
        CHECK(::access(here.path().c_str(), F_OK) == 0);
    }
    ::unlink(here.path().c_str());
    ferry::ipc::unique_fd const file{::open(here.path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)};
    support::fails(errc::argument, [&] { server{here.path()}; }, {"is no socket"});
    CHECK(::access(here.path().c_str(), F_OK) == 0);
}

TEST_CASE("IPC: the socket of a killed exporter is replaced although its forked child has it open") {
    place here;
    process exporter{[&](talk with) {
        server s{here.path()};
        with.say('l');
        if (!serve_until(s, [&] { return s.counts().clients == 1; })) return 1;
        if (::fork() == 0) {
            static_cast<void>(with.hear());
            ::_exit(0);
        }
        with.say('f');
        for (;;) s.poll(milliseconds{1000});
        return 0;
    }};
    REQUIRE(exporter.hear() == 'l');
    client c{here.path(), {.exporters = {}, .timeout = milliseconds::max()}};  // the patience does not end
    REQUIRE(exporter.hear() == 'f');
    c.ping();
    support::fails(errc::argument, [&] { server{here.path()}; }, {"served by another"});
    exporter.kill(SIGKILL);
    static_cast<void>(exporter.wait());
    support::fails(errc::exporter_gone, [&] { c.ping(); }, {"has exited"});
    server s{here.path()};
    s.start();
    client{here.path(), patient}.ping();
    exporter.say('e');
}

TEST_CASE(
    "IPC: another user is refused by the mode of the directory or by the allow-list" *
    doctest::skip(support::lacks_root())) {
    place here;
    auto const as_nobody = [&](auto body) {
        return process{[&, body](talk) {
                   if (::setgroups(0, nullptr) != 0 || ::setgid(nobody) != 0 || ::setuid(nobody) != 0) return 98;
                   return body();
               }}
            .wait();
    };
    ferry::ipc::client_options const trusting{.exporters = {0}, .timeout = support::patience};
    auto const connects = [&] { return static_cast<int>(code_of([&] { client{here.path(), trusting}.ping(); })); };
    SUBCASE("by the mode of the directory") {
        server s{here.path()};
        s.start();
        CHECK(as_nobody(connects) == static_cast<int>(errc::permission));
    }
    SUBCASE("a user that reaches the socket is refused unless it is in the allow-list") {
        server s{here.path(), {.allow = {}, .mode = 0660, .limits = {}}};
        REQUIRE(::chmod(here.folder.c_str(), 0711) == 0);
        REQUIRE(::chown(here.path().c_str(), 0, nobody) == 0);
        s.start();
        CHECK(as_nobody(connects) == static_cast<int>(errc::permission));
        CHECK(s.counts().clients == 0);
    }
    SUBCASE("a user in the allow-list may attach, and may not drop names") {
        server s{here.path(), {.allow = {nobody}, .mode = 0660, .limits = {}}};
        REQUIRE(::chmod(here.folder.c_str(), 0711) == 0);
        REQUIRE(::chown(here.path().c_str(), 0, nobody) == 0);
        s.start();
        memory frame;
        publish(s, 1, frame);
        CHECK(as_nobody([&] {
                  client c{here.path(), trusting};
                  if (!c.attach("frame")) return 1;
                  if (code_of([&] { c.drop("frame"); }) != errc::permission) return 2;
                  // The client does not trust a server of root.
                  return code_of([&] { client{here.path()}; }) == errc::permission ? 0 : 3;
              }) == 0);
        // Root is not in the allow-list.
        support::fails(errc::permission, [&] { client{here.path(), patient}.ping(); }, {"does not let this user"});
    }
}

TEST_CASE_FIXTURE(a_running_server,
                  "IPC: malformed, truncated and oversized messages close only their own connection") {
    client good{here.path(), patient};
    good.ping();
    int const fds = support::count_of("fd");
    std::uint64_t seed = 1;
    auto const whole = protocol::to_bytes(protocol::attach{1, 0, 0, 0, "frame"});
    std::vector<std::vector<std::byte>> bad;
    for (std::size_t n = 1; n < whole.size(); ++n)
        bad.emplace_back(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    for (std::size_t n : {1U, 8U, 100U, 65536U, 100'000U}) {
        auto& bytes = bad.emplace_back(n);
        for (auto& b : bytes) b = static_cast<std::byte>((seed = seed * 6364136223846793005U + 1) >> 56);
    }
    bad.push_back(protocol::to_bytes(protocol::granted{}));
    for (auto const& bytes : bad) {
        auto const fd = connect_raw(here.path());
        ferry::ipc::unique_fd const gift[]{ferry::ipc::unique_fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}};
        send_raw(fd, bytes, gift);
        CHECK(soon([&] { return hung_up(fd); }));
    }
    CHECK(soon([&] { return s.counts().clients == 1; }));
    CHECK(s.counts().violations == bad.size());
    CHECK(soon([&] { return support::count_of("fd") == fds; }));
    CHECK(good.attach("frame").has_value());
}

TEST_CASE("IPC: file descriptors sent with a valid message are closed") {
    place here;
    server s{here.path()};
    s.start();
    auto const fd = connect_raw(here.path());
    CHECK(soon([&] { return s.counts().clients == 1; }));
    int const fds = support::count_of("fd");
    ferry::ipc::unique_fd const gift[]{ferry::ipc::unique_fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}};
    for (std::uint64_t i = 0; i < 10; ++i) send_raw(fd, protocol::to_bytes(protocol::ping{i}), gift);
    std::vector<std::byte> room(100);
    for (int answers = 0; answers < 10;) {
        REQUIRE(soon([&] { return raw::receive(fd.get(), room, false).size != 0; }));
        ++answers;
    }
    CHECK(support::count_of("fd") == fds + 1);  // the file descriptor that was sent
}

TEST_CASE_FIXTURE(a_running_server,
                  "IPC: no request is read from a client while its replies are pending, and other clients are served") {
    auto const deaf = connect_raw(here.path());
    auto const question = protocol::to_bytes(protocol::list{1, ""});
    client good{here.path(), patient};
    std::size_t sent = 0;
    // Before it replies to a ping, the server has read the other messages that it reads.
    for (int refused = 0; refused < 20 && sent < 5000;) {
        if (raw::send(deaf.get(), question) == 0) ++sent, refused = 0;
        else good.ping(), ++refused;
    }
    CHECK(sent < 5000);  // the capacity of two socket buffers: the server stopped reading
    std::vector<std::byte> room(protocol::max_message);
    std::size_t answers = 0, more = 0;
    while (answers < 100) {  // about one request is read for each reply received
        if (raw::receive(deaf.get(), room, false).size != 0) ++answers;
        good.ping();
        while (raw::send(deaf.get(), question) == 0) ++more;
    }
    CHECK(more < 300);
    sent += more;
    CHECK(soon([&] {
        while (raw::receive(deaf.get(), room, false).size != 0) ++answers;
        return answers == sent;  // every request gets a reply when the client reads
    }));
}

TEST_CASE_FIXTURE(a_running_server,
                  "IPC: one request to release a buffer is queued for an importer that reads no messages") {
    auto const deaf = connect_raw(here.path());
    send_raw(deaf, protocol::to_bytes(protocol::attach{1, 0, 0, 0, "frame"}));
    REQUIRE(soon([&] { return s.counts().leases == 1; }));
    s.withdraw("frame");
    int const often = 20'000;
    for (int i = 0; i < often; ++i) s.retire(1);  // the socket is full after some hundred
    send_raw(deaf, protocol::to_bytes(protocol::ping{2}));
    std::vector<std::byte> room(protocol::max_message);
    int asked = 0;
    bool is_answered = false;
    while (!is_answered) {
        std::size_t size = 0;
        REQUIRE(soon([&] { return (size = raw::receive(deaf.get(), room, false).size) != 0; }));
        auto const m = protocol::from_bytes(std::span{room}.first(size));
        asked += std::holds_alternative<protocol::withdrawn>(m);
        is_answered = !std::holds_alternative<protocol::withdrawn>(m) && !std::holds_alternative<protocol::granted>(m);
    }
    CHECK(asked > 1);
    CHECK(asked < often / 2);
    CHECK_FALSE(s.is_freeable(1));
}

TEST_CASE("IPC: a server without file descriptors refuses importers, does not spin, and recovers") {
    place here;
    process exporter{[&](talk with) {
        memory frame;
        server s{here.path()};
        publish(s, 1, frame);
        no_fds_left limited;
        std::atomic<bool> is_refused = false;
        std::thread hears{[&] { is_refused = with.hear() == 'r'; }};
        with.say('l');
        while (!is_refused) s.poll(milliseconds{10});
        hears.join();
        polls_ready = 0;
        for (int i = 0; i < 20; ++i) s.poll(milliseconds{5});
        bool const spins = polls_ready != 0;  // no client connects now
        limited.lift();
        with.say('u');
        if (!serve_until(s, [&] { return s.counts().grants == 1; })) return 1;
        return spins ? 2 : 0;
    }};
    REQUIRE(exporter.hear() == 'l');
    support::fails(errc::argument, [&] { client{here.path(), patient}.ping(); }, {"limits"});
    support::fails(errc::argument, [&] { client{here.path(), patient}.ping(); }, {"limits"});
    exporter.say('r');
    REQUIRE(exporter.hear() == 'u');
    CHECK(client{here.path(), patient}.attach("frame").has_value());
    CHECK(exporter.wait() == 0);
}

TEST_CASE_FIXTURE(a_server, "IPC: an importer without file descriptors gets an error and releases the grant") {
    process importer{[&](talk with) {
        client c{here.path(), patient};
        c.ping();
        no_fds_left limited;
        auto const code = code_of([&] { static_cast<void>(c.attach("frame")); });
        limited.lift();
        if (code != errc::out_of_memory) return 1;
        c.ping();
        with.say('f');
        if (with.hear() != 'a') return 2;
        return c.attach("frame") ? 0 : 3;
    }};
    REQUIRE(serve_until(s, [&] { return s.counts().grants == 1 && s.held().empty(); }));
    importer.say('a');
    REQUIRE(serve_until(s, [&] { return s.counts().grants == 2 && s.counts().clients == 0; }));
    CHECK(importer.wait() == 0);
}

TEST_CASE("IPC: messages of a process that is not a server are errors, and its file descriptors are closed") {
    place here;
    auto const fake = listen_raw(here.path());
    auto const answers = [&](std::vector<std::byte> const& bytes, std::size_t fds, errc expected) {
        int const before = support::count_of("fd");
        {
            client c{here.path(), {.exporters = {}, .timeout = milliseconds{500}}};
            auto const at = accept_raw(fake);
            std::vector<ferry::ipc::unique_fd> gifts;
            for (std::size_t i = 0; i < fds; ++i) gifts.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
            send_raw(at, bytes, gifts);
            gifts.clear();
            support::fails(expected, [&] { static_cast<void>(c.attach("frame")); });
        }
        CHECK(support::count_of("fd") == before);
    };
    auto const grant = protocol::granted{1, 1, 1, 1, 1, true, 1, some};
    auto const none = protocol::granted{1, 1, 1, 1, 1, true, 0, some};
    answers(std::vector<std::byte>(16), 0, errc::bad_descriptor);
    answers(std::vector<std::byte>(16), 2, errc::bad_descriptor);
    answers(std::vector<std::byte>(70'000), 1, errc::bad_descriptor);
    answers(protocol::to_bytes(grant), 2, errc::bad_descriptor);
    answers(protocol::to_bytes(grant), 0, errc::bad_descriptor);
    answers(protocol::to_bytes(none), 8, errc::bad_descriptor);
    answers(protocol::to_bytes(protocol::done{1}), 0, errc::bad_descriptor);
    answers(protocol::to_bytes(protocol::ping{1}), 1, errc::bad_descriptor);
    answers(protocol::to_bytes(protocol::refused{0, ferry::ipc::reason::closed}), 0, errc::exporter_gone);
    answers(protocol::to_bytes(protocol::withdrawn{7}), 0, errc::exporter_gone);  // and then no message
}

TEST_CASE("IPC: importers beyond the limit get an error with the reason") {
    place here;
    server_options options;
    options.limits.clients = 2;
    server s{here.path(), options};
    s.start();
    client a{here.path(), patient}, b{here.path(), patient};
    a.ping();
    b.ping();
    support::fails(errc::argument, [&] { client{here.path(), patient}.ping(); }, {"limits"});
    a.close();
    CHECK(soon([&] { return s.counts().clients == 1; }));
    client{here.path(), patient}.ping();
}
