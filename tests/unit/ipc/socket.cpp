// The end of a connection as the kernel reports it.
#include <ferry/ipc/client.hpp>
#include <ferry/ipc/server.hpp>
#include <ferry/ipc/socket.hpp>

#include <support/allocation_failure.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <new>
#include <poll.h>
#include <span>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ipc = ferry::ipc;

namespace {

/// Runs when the kernel has found the queue empty, and before it checks whether the peer has closed.
thread_local constinit std::function<void()>* between = nullptr;

struct connected {
    ipc::unique_fd here, there;
    connected() {
        int both[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
        here = ipc::unique_fd{both[0]}, there = ipc::unique_fd{both[1]};
    }
};

}  // namespace

/// The kernel's function, with a window between its two checks.
extern "C" ssize_t recvmsg(int from, msghdr* message, int flags) {
    static auto const real = reinterpret_cast<decltype(&recvmsg)>(dlsym(RTLD_NEXT, "recvmsg"));
    ssize_t const n = real(from, message, flags);
    if (n >= 0 || errno != EAGAIN || between == nullptr) return n;
    (*std::exchange(between, nullptr))();
    pollfd check{from, POLLRDHUP, 0};  // the second
    bool const has_closed = ::poll(&check, 1, 0) == 1 && (check.revents & POLLRDHUP) != 0;
    errno = EAGAIN;
    return has_closed ? 0 : -1;
}

TEST_CASE("IPC: a message that the peer sends just before it closes is received before the end") {
    connected c;
    std::array const sent{std::byte{7}, std::byte{8}};
    std::function<void()> send_and_close = [&] {
        REQUIRE(ipc::socket::send(c.there.get(), sent) == 0);
        c.there = ipc::unique_fd{};
    };
    between = &send_and_close;
    std::array<std::byte, 16> buffer{};
    auto const first = ipc::socket::receive(c.here.get(), buffer, false);
    CHECK(first.error == 0);
    CHECK(first.size == 2);
    CHECK(buffer[0] == sent[0]);
    auto const second = ipc::socket::receive(c.here.get(), buffer, true);
    CHECK(second.error == 0);
    CHECK(second.size == 0);
}

TEST_CASE("IPC: file descriptors of an empty message are closed, and the next message is received") {
    connected c;
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    ipc::unique_fd const reader{pipe[0]};
    {
        std::array const passed{ipc::unique_fd{pipe[1]}};
        REQUIRE(ipc::socket::send(c.there.get(), {}, passed) == 0);
    }
    std::array<std::byte, 16> buffer{};
    {
        auto const empty = ipc::socket::receive(c.here.get(), buffer, true);
        CHECK(empty.size == 0);
        CHECK(empty.fds.size() == 1);
    }
    char byte;
    CHECK(::read(reader.get(), &byte, 1) == 0);  // no writer is left
}

TEST_CASE("IPC: a request that fails leaves no reply for the next one") {
    std::string folder = "/tmp/ferry-socket-XXXXXX";
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    ipc::server server{folder + "/socket"};
    server.start();
    std::array const bytes{std::byte{1}};
    server.publish("a", 1, bytes);
    server.publish("b", 2, bytes);
    for (int n = 1;; ++n) {
        INFO("allocation ", n, " fails");
        ipc::client client{server.path()};
        bool has_failed = false;
        {
            support::allocation_window const window{n};
            try {
                static_cast<void>(client.attach("a"));
            } catch (std::bad_alloc const&) {
            }
            has_failed = window.has_failed();
        }
        client.ping();
        static_cast<void>(client.is_closing());
        auto const b = client.attach("b");
        REQUIRE(b);
        CHECK(b->buffer == 2);
        if (!has_failed) break;
        REQUIRE(n < 1000);
    }
    server.close();
    ::rmdir(folder.c_str());
}
