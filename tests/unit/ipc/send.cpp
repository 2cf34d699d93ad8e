// Messages over a socket of the application, and peers that send other things.
#include <ferry/ipc/send.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/process.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <functional>
#include <initializer_list>
#include <netinet/in.h>
#include <new>
#include <poll.h>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

using ferry::errc;
using ferry::ipc::receive;
using ferry::ipc::send;
using ferry::ipc::transfer_limits;
using ferry::ipc::unique_fd;

namespace {

/// Header of a message.
struct head {
    std::uint64_t magic = 0x314C'4350'5252'4546;  // "FERRPCL1"
    std::uint64_t bytes = 0, files = 0;
};

using bytes_t = std::vector<std::byte>;
constexpr int both_types[] = {SOCK_STREAM, SOCK_SEQPACKET};
constexpr transfer_limits patient{.patience = support::patience};
constexpr transfer_limits hasty{.patience = std::chrono::milliseconds{1}};

struct connection {
    unique_fd here, there;
    explicit connection(int type) {
        int both[2];
        REQUIRE(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both) == 0);
        here = unique_fd{both[0]}, there = unique_fd{both[1]};
    }
    void enable(int option) const {
        int const on = 1;
        REQUIRE(::setsockopt(here.get(), SOL_SOCKET, option, &on, sizeof on) == 0);
    }
};

/// A file whose other copies are counted: `is_closed` once all are closed.
struct watched_file {
    unique_fd reader, writer;
    watched_file() {
        int both[2];
        REQUIRE(::pipe2(both, O_CLOEXEC | O_NONBLOCK) == 0);
        reader = unique_fd{both[0]}, writer = unique_fd{both[1]};
    }
    [[nodiscard]] bool is_closed() {
        writer = unique_fd{};
        char c;
        return ::read(reader.get(), &c, 1) == 0;  // otherwise EAGAIN
    }
};

bytes_t counting(std::size_t n) {
    bytes_t b(n);
    for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i * 7 + i / 256);
    return b;
}
bytes_t text(char const* t) {
    auto const all = std::as_bytes(std::span{t, std::strlen(t)});
    return {all.begin(), all.end()};
}
bytes_t with_head(head h, bytes_t const& body = {}) {
    auto const front = std::as_bytes(std::span{&h, 1});
    bytes_t all{front.begin(), front.end()};
    all.insert(all.end(), body.begin(), body.end());
    return all;
}
/// What a peer sends with one call; with credentials beside the files if it wants.
void push(int to, std::span<std::byte const> bytes, std::vector<int> const& files = {}, bool with_credentials = false) {
    iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) std::byte room[4096] = {};
    msghdr m{};
    m.msg_iov = &data, m.msg_iovlen = 1, m.msg_control = room, m.msg_controllen = sizeof room;
    auto* c = CMSG_FIRSTHDR(&m);
    std::size_t used = 0;
    auto const add = [&](int type, void const* content, std::size_t size) {
        *c = {.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = type};
        std::memcpy(CMSG_DATA(c), content, size);
        used += CMSG_SPACE(size);
        c = CMSG_NXTHDR(&m, c);
    };
    ucred const me{::getpid(), ::getuid(), ::getgid()};
    if (with_credentials) add(SCM_CREDENTIALS, &me, sizeof me);
    if (!files.empty()) add(SCM_RIGHTS, files.data(), files.size() * sizeof(int));
    m.msg_controllen = used;
    REQUIRE(::sendmsg(to, &m, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}
[[nodiscard]] bool is_same_file(int a, int b) {
    struct stat of_a = {}, of_b = {};
    return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}
/// The number of the next file that this process opens.
[[nodiscard]] int next_file() {
    unique_fd const f{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    return f.get();
}
[[nodiscard]] bool is_shut_down(int socket) {
    pollfd p{socket, POLLIN, 0};
    return ::poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0;
}

/// Checks that a call fails, as support::fails does, and returns the text of the error.
template <class F>
[[nodiscard]] std::string failure(errc code, F f, std::initializer_list<char const*> texts) {
    std::string what;
    auto const kept = [&] {
        try {
            f();
        } catch (ferry::error const& e) {
            what = e.what();
            throw;
        }
    };
    support::fails(code, kept, texts);
    return what;
}
/// Whether a part of the message was transferred before an error: not if the deadline had passed before the call began.
[[nodiscard]] bool has_begun(std::string const& what) { return what.find(" 0 bytes of a message") == what.npos; }

}  // namespace

TEST_CASE("a message and its files arrive over a stream socket and over a seqpacket socket") {
    for (int const type : both_types)
        for (bool const is_blocking : {true, false})
            for (std::size_t const size : {0u, 1u, 1000u, 60'000u})
                for (std::size_t const count : {0u, 1u, 3u}) {
                    INFO("type ", type, ", ", size, " bytes, ", count, " files");
                    connection const c{type};
                    if (!is_blocking)
                        for (auto const* end : {&c.here, &c.there})
                            REQUIRE(::fcntl(end->get(), F_SETFL, O_NONBLOCK) == 0);
                    std::vector<unique_fd> files;
                    std::vector<int> numbers;
                    for (std::size_t i = 0; i < count; ++i)
                        numbers.push_back(files.emplace_back(::memfd_create("file", MFD_CLOEXEC)).get());
                    auto const sent = counting(size);
                    send(c.there.get(), sent, numbers, patient);
                    auto const got = receive(c.here.get(), patient);
                    CHECK(got.bytes == sent);
                    REQUIRE(got.files.size() == count);
                    for (std::size_t i = 0; i < count; ++i) {
                        CHECK(is_same_file(got.files[i].get(), numbers[i]));
                        CHECK((::fcntl(got.files[i].get(), F_GETFD) & FD_CLOEXEC) != 0);
                    }
                }
}

TEST_CASE("messages that are queued back to back are received one by one, each with its own files") {
    for (int const type : both_types) {
        CAPTURE(type);
        connection const c{type};
        unique_fd const a{::memfd_create("a", MFD_CLOEXEC)}, b{::memfd_create("b", MFD_CLOEXEC)};
        int const first[] = {a.get()}, last[] = {b.get(), a.get()};
        send(c.there.get(), counting(5), first, patient);
        send(c.there.get(), counting(100), {}, patient);
        send(c.there.get(), {}, last, patient);
        send(c.there.get(), counting(7), {}, patient);
        auto const p = receive(c.here.get(), patient), q = receive(c.here.get(), patient),
                   r = receive(c.here.get(), patient), s = receive(c.here.get(), patient);
        CHECK((p.bytes == counting(5) && q.bytes == counting(100) && r.bytes.empty() && s.bytes == counting(7)));
        REQUIRE((p.files.size() == 1 && q.files.empty() && r.files.size() == 2 && s.files.empty()));
        CHECK(is_same_file(p.files[0].get(), a.get()));
        CHECK(is_same_file(r.files[0].get(), b.get()));
        CHECK(is_same_file(r.files[1].get(), a.get()));
    }
}

TEST_CASE("a message that arrives byte by byte over a stream socket is received with its files") {
    connection const c{SOCK_STREAM};
    watched_file w;
    auto const all = with_head({.bytes = 10, .files = 1}, counting(10));
    for (std::size_t i = 0; i < all.size(); ++i)
        push(c.there.get(), std::span{all}.subspan(i, 1), i == 0 ? std::vector{w.writer.get()} : std::vector<int>{});
    {
        auto const got = receive(c.here.get(), patient);
        CHECK(got.bytes == counting(10));
        REQUIRE(got.files.size() == 1);
        CHECK(is_same_file(got.files[0].get(), w.writer.get()));
    }
    CHECK(w.is_closed());
}

TEST_CASE("a message larger than the buffer of a stream socket is sent while the peer receives it") {
    connection const c{SOCK_STREAM};
    unique_fd const file{::memfd_create("file", MFD_CLOEXEC)};
    auto const sent = counting(std::size_t{1} << 20);
    std::thread peer{[&] {
        int const files[] = {file.get()};
        send(c.there.get(), sent, files, patient);
    }};
    auto const got = receive(c.here.get(), patient);
    peer.join();
    CHECK(got.bytes == sent);
    CHECK(got.files.size() == 1);
}

TEST_CASE("253 files of one message arrive, with the credentials and the pidfd that the application has enabled") {
    for (int const type : both_types) {
        CAPTURE(type);
        connection const c{type};
        c.enable(SO_PASSCRED);
        int const on = 1, pass_pidfd = 76;  // SO_PASSPIDFD, Linux 6.5
        static_cast<void>(::setsockopt(c.here.get(), SOL_SOCKET, pass_pidfd, &on, sizeof on));
        int const next = next_file();
        {
            watched_file w;
            std::vector<int> const files(253, w.writer.get());
            transfer_limits const wide{.files = 253, .patience = support::patience};
            send(c.there.get(), counting(4), files, wide);
            {
                auto const got = receive(c.here.get(), wide);
                CHECK(got.bytes == counting(4));
                CHECK(got.files.size() == 253);
            }
            push(c.there.get(), with_head({.bytes = 3, .files = 1}, counting(3)), {w.writer.get()}, true);
            CHECK(receive(c.here.get(), wide).files.size() == 1);
            CHECK(w.is_closed());
        }
        CHECK(next_file() == next);  // no pidfd is left open
    }
}

TEST_CASE("what a hostile peer sends is refused, its files are closed, and the connection is shut down") {
    struct row {
        char const* what;
        bool on_stream, on_seqpacket;
        errc code;
        char const* text;
        std::function<void(connection&, int file)> attack;
    };
    auto const all_types = [](char const* what, errc code, char const* found, auto attack) {
        return row{what, true, true, code, found, attack};
    };
    auto const sends = [](bytes_t bytes, int files = 0) {
        return [=](connection& c, int file) {
            push(c.there.get(), bytes, std::vector<int>(static_cast<std::size_t>(files), file));
        };
    };
    auto const closing = [](auto attack) {
        return [=](connection& c, int file) {
            attack(c, file);
            c.there = unique_fd{};
        };
    };
    auto const datagram = [](char const* what, char const* found, auto attack) {
        return row{what, false, true, errc::bad_descriptor, found, attack};
    };
    auto const in_stream = [](char const* what, errc code, char const* found, auto attack) {
        return row{what, true, false, code, found, attack};
    };
    head const ok{.bytes = 4};
    row const rows[] = {
        all_types("too many bytes", errc::bad_descriptor, "has 1001 bytes and 1 files, expected at most 1000 and 4",
                  sends(with_head({.bytes = 1001, .files = 1}, counting(1001)), 1)),
        all_types("too many files", errc::bad_descriptor, "has 0 bytes and 5 files, expected at most 1000 and 4",
                  sends(with_head({.files = 5}), 5)),
        all_types("another protocol", errc::bad_descriptor, "begins with `GET / HT`, expected `FERRPCL1`",
                  sends(text("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 1)),
        all_types("unprintable bytes", errc::bad_descriptor, "begins with `????????`", sends(bytes_t(100), 2)),
        all_types("more files than stated", errc::bad_descriptor, "states 1 files, and has 3",
                  sends(with_head({.bytes = 4, .files = 1}, counting(4)), 3)),
        all_types("more files than stated, beyond the limit", errc::bad_descriptor, "states 1 files, and has 253",
                  sends(with_head({.bytes = 4, .files = 1}, counting(4)), 253)),
        all_types("files that are not stated", errc::bad_descriptor, "states 0 files, and has 1",
                  sends(with_head(ok, counting(4)), 1)),
        all_types("fewer files than stated", errc::bad_descriptor, "states 3 files, and has 1",
                  sends(with_head({.bytes = 4, .files = 3}, counting(4)), 1)),
        all_types("no files, but some are stated", errc::bad_descriptor, "states 3 files, and has 0",
                  sends(with_head({.bytes = 4, .files = 3}, counting(4)), 0)),
        all_types("sockets", errc::bad_descriptor, "1 files are sockets",
                  [&](connection& c, int file) {
                      push(c.there.get(), with_head({.bytes = 4, .files = 2}, counting(4)), {c.there.get(), file});
                  }),
        all_types("files with credentials, and more than stated", errc::bad_descriptor, "states 0 files, and has 2",
                  [&](connection& c, int file) {
                      c.enable(SO_PASSCRED);
                      push(c.there.get(), with_head(ok, counting(4)), {file, file}, true);
                  }),
        in_stream("files in the middle of the bytes", errc::bad_descriptor, "states 1 files, and has 2",
                  [&](connection& c, int file) {
                      push(c.there.get(), with_head({.bytes = 4, .files = 1}, counting(2)), {file});
                      push(c.there.get(), counting(2), {file});
                  }),
        in_stream("half a header, and the peer closes", errc::exporter_gone, "closed the socket after 10 bytes",
                  closing([&](connection& c, int file) { push(c.there.get(), counting(10), {file}); })),
        in_stream("half the bytes, and the peer closes", errc::exporter_gone, "closed the socket after 26 bytes",
                  closing(sends(with_head({.bytes = 4, .files = 1}, counting(2)), 1))),
        in_stream("half a header, and the peer waits", errc::busy, "of a message in 1 ms (transfer_limits::patience)",
                  [&](connection& c, int file) { push(c.there.get(), counting(10), {file}); }),
        in_stream("half the bytes, and the peer waits", errc::busy, "of a message in 1 ms",
                  sends(with_head({.bytes = 4, .files = 1}, counting(2)), 1)),
        datagram("half a header", "begins with `", sends(counting(10), 1)),
        datagram("a header without its end", "has 16 bytes, expected 24 + ",
                 [&](connection& c, int file) {
                     auto const all = with_head({.bytes = std::uint64_t{0} - 8});
                     push(c.there.get(), std::span{all}.first(16), {file});
                 }),
        datagram("a header that the wrapped size fits", "has 20 bytes, expected 24 + ",
                 [&](connection& c, int file) {
                     auto const all = with_head({.bytes = std::uint64_t{0} - 4});
                     push(c.there.get(), std::span{all}.first(20), {file});
                 }),
        datagram("fewer bytes than stated", "has 26 bytes, expected 24 + 4", sends(with_head(ok, counting(2)), 1)),
        datagram("more bytes than stated", "has 30 bytes, expected 24 + 4", sends(with_head(ok, counting(6)), 1)),
        row{"an empty datagram", false, true, errc::exporter_gone, "closed the socket after 0 bytes", sends({}, 1)},
    };
    for (auto const& r : rows)
        for (int const type : both_types) {
            if (!(type == SOCK_STREAM ? r.on_stream : r.on_seqpacket)) continue;
            INFO(support::shown(r.what), ", type ", type);
            connection c{type};
            watched_file w;
            r.attack(c, w.writer.get());
            transfer_limits const limits{1000, 4, r.code == errc::busy ? hasty.patience : patient.patience};
            int const next = next_file();
            auto const what = failure(r.code, [&] { static_cast<void>(receive(c.here.get(), limits)); }, {r.text});
            CHECK(next_file() == next);
            CHECK(is_shut_down(c.here.get()) == has_begun(what));
            c = connection{type};  // files that were not received are closed with the socket
            CHECK(w.is_closed());
        }
}

TEST_CASE("a peer that sends a byte at a time does not extend the call") {
    connection c{SOCK_STREAM};
    std::thread peer{[&] {
        auto const begin = with_head({.bytes = std::size_t{1} << 20});
        for (auto const& b : begin) ::send(c.there.get(), &b, 1, MSG_NOSIGNAL);
        char const more = 0;  // a million calls take longer than the limit, on any machine
        while (::send(c.there.get(), &more, 1, MSG_NOSIGNAL) == 1) {
        }
    }};
    transfer_limits const limits{.patience = std::chrono::milliseconds{20}};
    support::fails(errc::busy, [&] { static_cast<void>(receive(c.here.get(), limits)); });
    c.here = unique_fd{};
    peer.join();
}

TEST_CASE("a socket among the files is closed without waiting for its peer") {
    connection const c{SOCK_STREAM};
    unique_fd const lingering{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    linger state{.l_onoff = 1, .l_linger = 3600};
    REQUIRE(::setsockopt(lingering.get(), SOL_SOCKET, SO_LINGER, &state, sizeof state) == 0);
    int const files[] = {lingering.get()};
    send(c.there.get(), {}, files, patient);
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(receive(c.here.get(), patient)); },
                   {"sockets: send only files of memory"});
    socklen_t size = sizeof state;
    REQUIRE(::getsockopt(lingering.get(), SOL_SOCKET, SO_LINGER, &state, &size) == 0);
    CHECK(state.l_onoff == 0);
}

TEST_CASE("files beyond the limit of the process are an error, and those received are closed") {
    // Sanitizers open files when they meet a type for the first time.
    support::fails(errc::argument, [] { static_cast<void>(receive(-1)); });
    for (int const type : both_types)
        for (int const room : {0, 1, 2}) {
            INFO("type ", type, ", room for ", room, " files");
            connection const c{type};
            watched_file w;
            std::vector<int> const files(3, w.writer.get());
            send(c.there.get(), counting(4), files, patient);
            rlimit before{};
            REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
            rlimit const few{static_cast<rlim_t>(next_file() + room), before.rlim_max};
            std::exception_ptr failure;
            REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
            try {  // no checks here: sanitizers need files
                static_cast<void>(receive(c.here.get(), patient));
            } catch (...) {
                failure = std::current_exception();
            }
            REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
            REQUIRE(failure);
            std::string const expected = "received " + std::to_string(room) + " of 3 files";
            support::fails(errc::out_of_memory, [&] { std::rethrow_exception(failure); },
                           {expected.c_str(), "ulimit -n"});
            CHECK(is_shut_down(c.here.get()));
            CHECK(w.is_closed());
        }
}

TEST_CASE("when an allocation of receive fails, no file is leaked") {
    for (int const type : both_types)
        for (int n = 1;; ++n) {
            INFO("type ", type, ", allocation ", n, " fails");
            connection c{type};
            watched_file w;
            std::vector<int> const files(2, w.writer.get());
            send(c.there.get(), counting(1000), files, patient);
            bool has_failed = false, is_received = false;
            int live = 0;
            {
                support::allocation_window const window{n};
                try {
                    is_received = receive(c.here.get(), patient).files.size() == 2;
                } catch (std::bad_alloc const&) {
                }
                has_failed = window.has_failed(), live = window.live();
            }
            CHECK(is_received != has_failed);
            CHECK(live == 0);
            c = connection{type};
            CHECK(w.is_closed());
            if (!has_failed) {
                CHECK(n == 3);
                break;
            }
        }
}

TEST_CASE("no memory is allocated for what exceeds the limits") {
    connection const c{SOCK_STREAM};
    push(c.there.get(), with_head({.bytes = 11}), std::vector<int>(100, STDIN_FILENO));
    int allocations = 0;
    {
        support::allocation_window const window;
        try {
            static_cast<void>(receive(c.here.get(), {10, 4, support::patience}));
        } catch (ferry::error const&) {
            allocations = window.allocations();
        }
    }
    CHECK(allocations == 1);  // for the 4 files of the limit
}

TEST_CASE("nothing in time is an error, after which the connection still works") {
    for (int const type : both_types) {
        CAPTURE(type);
        connection const c{type};
        for (auto const limit : {0, 1})
            support::fails(
                errc::busy,
                [&] { static_cast<void>(receive(c.here.get(), {.patience = std::chrono::milliseconds{limit}})); },
                {"the peer has sent 0 bytes of a message"});
        send(c.there.get(), counting(3), {}, patient);
        CHECK(receive(c.here.get(), patient).bytes == counting(3));
    }
}

TEST_CASE("messages that a peer sent before it closed are received before the error that it has closed") {
    for (int const type : both_types)
        for (bool const has_unread : {false, true}) {
            INFO("type ", type, ", unread messages: ", has_unread);
            connection c{type};
            if (has_unread) send(c.here.get(), counting(9), {}, patient);  // the peer closes with a reset
            send(c.there.get(), counting(1), {}, patient);
            send(c.there.get(), counting(2), {}, patient);
            c.there = unique_fd{};
            CHECK(receive(c.here.get(), patient).bytes == counting(1));
            CHECK(receive(c.here.get(), patient).bytes == counting(2));
            support::fails(errc::exporter_gone, [&] { static_cast<void>(receive(c.here.get(), patient)); });
            support::fails(errc::exporter_gone, [&] { send(c.here.get(), counting(1), {}, patient); },
                           {"the peer has closed the socket: create a new connection"});
        }
}

TEST_CASE("a message that cannot be sent is an error that names the cause and the fix") {
    for (int const type : both_types) {
        CAPTURE(type);
        connection const c{type};
        auto const fails = [&](std::size_t bytes, std::vector<int> const& files, transfer_limits const& limits,
                               char const* found, char const* fix) {
            support::fails(errc::argument, [&] { send(c.there.get(), counting(bytes), files, limits); }, {found, fix});
        };
        fails(11, {}, {.bytes = 10}, "has 11 bytes and 0 files, expected at most 10 and 64", "raise transfer_limits");
        fails(1, {0, 0}, {.files = 1}, "has 1 bytes and 2 files, expected at most 1048576 and 1", "split it");
        fails(1, {}, {.files = 254}, "files is 254, expected at most 253", "send several messages");
        fails(1, {0, -1}, patient, "file 1 is -1", "send only open file descriptors");
        fails(1, {1 << 20}, patient, "sendmsg: Bad file descriptor", "open files");
        send(c.there.get(), counting(1), {}, patient);  // the connection still works
        CHECK(receive(c.here.get(), patient).bytes == counting(1));
    }
    connection const datagrams{SOCK_DGRAM};
    unique_fd const file{::memfd_create("file", MFD_CLOEXEC)}, udp{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)},
        tcp{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    for (auto const& [socket, found] : {std::pair{-1, "getsockopt: Bad file descriptor: pass an open socket"},
                                        {file.get(), "getsockopt: Socket operation on non-socket"},
                                        {tcp.get(), "the socket has domain 2 and type 1, expected a Unix socket"},
                                        {udp.get(), "the socket has domain 2 and type 2"},
                                        {datagrams.here.get(), "the socket has domain 1 and type 2"}}) {
        support::fails(errc::argument, [&, s = socket] { send(s, {}, {}, patient); }, {found});
        support::fails(errc::argument, [&, s = socket] { static_cast<void>(receive(s, patient)); }, {found});
    }
    unique_fd const alone{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    support::fails(errc::exporter_gone, [&] { send(alone.get(), {}, {}, patient); });
}

TEST_CASE("a stream is shut down when the peer has received only a part of a message") {
    connection const c{SOCK_STREAM};
    watched_file w;
    int const files[] = {w.writer.get()};
    auto const sends_a_part = [&] {
        return has_begun(failure(errc::busy,
                                 [&] {
                                     send(c.there.get(), counting(std::size_t{1} << 20), files,
                                          {.patience = std::chrono::milliseconds{50}});
                                 },
                                 {"the peer has received "}));
    };
    while (!sends_a_part()) REQUIRE_FALSE(is_shut_down(c.there.get()));
    REQUIRE(is_shut_down(c.there.get()));
    support::fails(errc::exporter_gone, [&] { static_cast<void>(receive(c.here.get(), patient)); });
    CHECK(w.is_closed());
}

TEST_CASE("a datagram larger than the buffer of its socket is an error, and one that finds no room is not sent") {
    connection const c{SOCK_SEQPACKET};
    int const small = 8192;
    REQUIRE(::setsockopt(c.there.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    support::fails(errc::argument, [&] { send(c.there.get(), counting(100'000), {}, patient); }, {"raise SO_SNDBUF"});
    std::size_t sent = 0;
    for (bool is_full = false; !is_full;) try {
            send(c.there.get(), counting(1000), {}, {.patience = std::chrono::milliseconds{50}});
            ++sent;
        } catch (ferry::error const& e) {
            is_full = e.code() == errc::busy;
            REQUIRE(is_full);
        }
    for (std::size_t i = 0; i < sent; ++i) CHECK(receive(c.here.get(), patient).bytes == counting(1000));
    send(c.there.get(), counting(3), {}, patient);
    CHECK(receive(c.here.get(), patient).bytes == counting(3));
}

TEST_CASE("another process receives memory, and is killed or ends between two messages") {
    for (int const type : both_types) {
        CAPTURE(type);
        connection c{type};
        support::process child{[&](support::talk to) {
            c.here = unique_fd{};
            auto const got = receive(c.there.get(), patient);
            if (got.bytes != counting(6) || got.files.size() != 1) return 1;
            std::array<char, 4> text{};
            if (::pread(got.files[0].get(), text.data(), 4, 0) != 4 || std::memcmp(text.data(), "data", 4) != 0)
                return 2;
            if (::pwrite(got.files[0].get(), "back", 4, 0) != 4) return 3;
            send(c.there.get(), counting(2), {}, patient);
            to.say();
            return static_cast<int>(to.hear());  // until it is killed
        }};
        c.there = unique_fd{};
        unique_fd const file{::memfd_create("file", MFD_CLOEXEC)};
        REQUIRE(::pwrite(file.get(), "data", 4, 0) == 4);
        int const files[] = {file.get()};
        send(c.here.get(), counting(6), files, patient);
        REQUIRE(child.hear() == '.');
        child.kill(SIGKILL);
        CHECK(child.wait() == -SIGKILL);
        CHECK(receive(c.here.get(), patient).bytes == counting(2));
        support::fails(errc::exporter_gone, [&] { static_cast<void>(receive(c.here.get(), patient)); });
        std::array<char, 4> text{};
        CHECK(::pread(file.get(), text.data(), 4, 0) == 4);
        CHECK(std::memcmp(text.data(), "back", 4) == 0);
    }
}

TEST_CASE("a peer that is killed within a message ends the call") {
    connection c{SOCK_STREAM};
    watched_file w;
    support::process child{[&](support::talk to) {
        push(c.there.get(), with_head({.bytes = 100, .files = 1}, counting(50)), {w.writer.get()});
        to.say();
        return static_cast<int>(to.hear());
    }};
    c.there = unique_fd{};
    REQUIRE(child.hear() == '.');
    std::thread killer{[&] { child.kill(SIGKILL); }};
    support::fails(errc::exporter_gone, [&] { static_cast<void>(receive(c.here.get(), patient)); }, {"after 74 bytes"});
    killer.join();
    static_cast<void>(child.wait());
    CHECK(w.is_closed());
}
