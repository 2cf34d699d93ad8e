// Common parts of the tests of the lifetime protocol between processes: a folder for sockets, and buffers of shared
// memory.
#pragma once

#include <ferry/ipc/client.hpp>
#include <ferry/ipc/server.hpp>

#include "support/fails.hpp"
#include "support/process.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <vector>

namespace lifetime {

using ferry::errc;
using ferry::ipc::client;
using ferry::ipc::event;
using ferry::ipc::server;
using ferry::ipc::server_options;
using std::chrono::milliseconds;
using support::process;
using support::soon;
using support::talk;

/// A client with a timeout that only ends a test that hangs. The default of two seconds may pass on a loaded machine.
inline ferry::ipc::client_options const patient{.exporters = {}, .timeout = support::patience};

inline std::vector<std::byte> const some{std::byte{1}, std::byte{2}};

/// A temporary folder, removed with its contents.
struct place {
    std::string folder = "/tmp/ferry-test-XXXXXX";
    place() { REQUIRE(::mkdtemp(folder.data()) != nullptr); }
    place(place const&) = delete;
    place& operator=(place const&) = delete;
    ~place() {
        ::unlink(path().c_str());
        ::rmdir(folder.c_str());
    }
    [[nodiscard]] std::string path() const { return folder + "/socket"; }
};

/// Anonymous shared memory of the exporter, or its mapping in an importer.
struct memory {
    static constexpr std::size_t count = 16384;  // numbers
    ferry::ipc::unique_fd fd;
    std::uint64_t* data = nullptr;
    memory() : memory{ferry::ipc::unique_fd{::memfd_create("frame", MFD_CLOEXEC)}} {}
    explicit memory(ferry::ipc::unique_fd of) : fd{std::move(of)} {
        if (::ftruncate(fd.get(), count * 8) != 0) std::abort();
        auto* const at = ::mmap(nullptr, count * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
        if (at == MAP_FAILED) std::abort();
        data = static_cast<std::uint64_t*>(at);
    }
    memory(memory&& other) noexcept : fd{std::move(other.fd)}, data{std::exchange(other.data, nullptr)} {}
    memory& operator=(memory&&) = delete;
    ~memory() {
        if (data != nullptr) ::munmap(data, count * 8);
    }
    void fill(std::uint64_t value) { std::fill_n(data, count, value); }
    [[nodiscard]] bool is(std::uint64_t value) const {
        return std::all_of(data, data + count,
                           [&](auto const& n) { return *static_cast<std::uint64_t const volatile*>(&n) == value; });
    }
};

inline std::uint64_t publish(server& s, std::uint64_t buffer, memory const& m) {
    int const fd = m.fd.get();
    return s.publish("frame", buffer, some, std::span{&fd, 1});
}

/// A server that has published one frame, buffer 1; the test serves.
struct a_server {
    place here;
    memory frame;
    server s{here.path()};
    a_server() { publish(s, 1, frame); }
};
/// The same, served by its own thread.
struct a_running_server {
    place here;
    memory frame;
    server s{here.path()};
    a_running_server() {
        s.start();
        publish(s, 1, frame);
    }
};

/// Serves until the condition holds; ends the program when it hangs.
template <class F>
[[nodiscard]] bool serve_until(server& s, F is_so) {
    support::until("what a server waits for", [&] { return is_so() || (s.poll(milliseconds{10}), is_so()); });
    return true;
}
/// Serves until an event of this kind.
[[nodiscard]] inline bool serve_until_told(server& s, event::what kind, std::uint64_t buffer = 1) {
    support::until("an event of a server", [&] {
        bool is_told = false;
        for (auto const& e : s.poll(milliseconds{10})) is_told |= e.kind == kind && e.buffer == buffer;
        return is_told;
    });
    return true;
}

/// The error code of a call, for the other process, in which checks are not counted.
template <class F>
[[nodiscard]] errc code_of(F f) {
    try {
        f();
    } catch (ferry::error const& e) {
        return e.code();
    }
    return errc::ok;
}
inline long environment(char const* name, long otherwise) {
    char const* const said = std::getenv(name);
    return said != nullptr ? std::atol(said) : otherwise;
}

}  // namespace lifetime
