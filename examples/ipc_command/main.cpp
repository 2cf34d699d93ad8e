// ferry-ipc: lists, prints and withdraws publications of ferry::ipc::server, for all exporters of this user.
#include <ferry/ipc/client.hpp>
#include <ferry/ipc/server.hpp>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

constexpr auto usage = R"(usage: ferry-ipc ls [SOCKET]          lists publications of one exporter, or of all of this user
       ferry-ipc cat SOCKET NAME      prints the bytes of a descriptor
       ferry-ipc drop SOCKET NAME     withdraws a name; importers may continue to read
       ferry-ipc demo SOCKET SECONDS  publishes a small descriptor, to try the other commands
SOCKET is a path, or a name in the directory of this user's sockets.
)";

/// Replaces the control characters of a received name, so that a terminal can show it.
std::string shown(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto const c = static_cast<unsigned char>(text[i]);
        bool const is_c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
        out += c < 32 || c == 127 || is_c1 ? '?' : text[i];
        i += is_c1;
    }
    return out;
}

void list(std::string const& socket) {
    ferry::ipc::client client{socket};
    auto const all = client.list();
    auto const n = client.counts();
    std::printf("%s: %llu published, %llu importers, %llu grants, %llu leases, %llu condemned\n", shown(socket).c_str(),
                static_cast<unsigned long long>(n.published), static_cast<unsigned long long>(n.clients - 1),
                static_cast<unsigned long long>(n.grants), static_cast<unsigned long long>(n.leases), static_cast<unsigned long long>(n.condemned));
    if (!all.empty()) std::printf("  %-32s %8s %10s %8s %10s %8s %8s %8s\n", "name", "buffer", "generation", "bytes", "age s", "grants", "reading", "holding");
    for (auto const& e : all)
        std::printf("  %-32s %8llu %10llu %8llu %10.1f %8llu %8u %8u\n", shown(e.name).c_str(), static_cast<unsigned long long>(e.buffer),
                    static_cast<unsigned long long>(e.generation), static_cast<unsigned long long>(e.bytes), static_cast<double>(e.age) * 1e-3,
                    static_cast<unsigned long long>(e.grants), e.readers, e.holders);
}

int list_all() {
    int failed = 0;
    std::error_code none;
    for (auto const& file : std::filesystem::directory_iterator{ferry::ipc::socket_directory(), none}) {
        if (!file.is_socket()) continue;
        try {
            list(file.path().string());
        } catch (ferry::error const& e) {  // continues with the other exporters
            std::fprintf(stderr, "%s: %s\n", shown(file.path().string()).c_str(), e.what());
            failed = 1;
        }
    }
    return failed;
}

int cat(std::string const& socket, std::string_view name) {
    ferry::ipc::client client{socket};
    auto const found = client.attach(name);
    if (!found) return std::fprintf(stderr, "nothing is published as %s\n", shown(name).c_str()), 1;
    client.release(found->buffer);
    return std::fwrite(found->descriptor.data(), 1, found->descriptor.size(), stdout) == found->descriptor.size() ? 0 : 1;
}

int drop(std::string const& socket, std::string_view name) {
    if (ferry::ipc::client{socket}.drop(name)) return 0;
    return std::fprintf(stderr, "nothing is published as %s\n", shown(name).c_str()), 1;
}

int demo(std::string const& socket, std::string const& seconds) {
    int length = 0;
    auto const* const end = seconds.data() + seconds.size();
    if (auto const [at, failed] = std::from_chars(seconds.data(), end, length); failed != std::errc{} || at != end || length < 0)
        return std::fprintf(stderr, "%s is not a number of seconds\n", shown(seconds).c_str()), 2;
    ferry::ipc::server server{socket};
    std::string_view const text = "a descriptor\n";
    server.publish("demo", 1, std::as_bytes(std::span{text}));
    auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{length};
    while (std::chrono::steady_clock::now() < until) server.poll(std::chrono::milliseconds{100});
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> const words{argv + 1, argv + argc};
    try {
        if (words == std::vector<std::string>{"ls"}) return list_all();
        if (words.size() == 2 && words[0] == "ls") return list(words[1]), 0;
        if (words.size() == 3 && words[0] == "cat") return cat(words[1], words[2]);
        if (words.size() == 3 && words[0] == "drop") return drop(words[1], words[2]);
        if (words.size() == 3 && words[0] == "demo") return demo(words[1], words[2]);
        std::fputs(usage, stderr);
        return 2;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "ferry-ipc: %s\n", e.what());
        return 1;
    }
}
