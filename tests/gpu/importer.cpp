#include <ferry/cuda/attach_handle.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/wire/binary.hpp>
#include <gpu/gate.hpp>
#include <gpu/importer.hpp>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace support {
namespace {

bool read_all(int from, void* to, std::size_t n) {
    auto* p = static_cast<char*>(to);
    while (n > 0) {
        ssize_t const got = ::read(from, p, n);
        if (got <= 0) return false;
        p += got;
        n -= static_cast<std::size_t>(got);
    }
    return true;
}
bool write_all(int to, void const* from, std::size_t n) {
    auto const* p = static_cast<char const*>(from);
    while (n > 0) {
        ssize_t const sent = ::send(to, p, n, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        p += sent;
        n -= static_cast<std::size_t>(sent);
    }
    return true;
}

struct header {
    std::uint32_t what;
    std::uint32_t size;
};

bool send_message(int to, std::uint32_t what, std::span<std::byte const> payload) {
    header const h{what, static_cast<std::uint32_t>(payload.size())};
    return write_all(to, &h, sizeof h) && write_all(to, payload.data(), payload.size());
}
bool receive_message(int from, std::uint32_t& what, std::vector<std::byte>& payload) {
    header h{};
    if (!read_all(from, &h, sizeof h)) return false;
    what = h.what;
    payload.resize(h.size);
    return read_all(from, payload.data(), payload.size());
}

/// A message of one byte with a file beside it.
bool send_file(int to, int file) {
    char byte = 'f';
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &file, sizeof file);
    return ::sendmsg(to, &m, MSG_NOSIGNAL) == 1;
}
int receive_file(int from) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    if (::recvmsg(from, &m, 0) != 1) return -1;
    cmsghdr const* const c = CMSG_FIRSTHDR(&m);
    int file = -1;
    if (c != nullptr && c->cmsg_type == SCM_RIGHTS) std::memcpy(&file, CMSG_DATA(c), sizeof file);
    return file;
}

constexpr std::uint32_t pass_file = 0xf11e;

/// Work that may block, so that the importer still hears what it is told.
class aside {
   public:
    aside() = default;
    aside(aside const&) = delete;
    aside& operator=(aside const&) = delete;
    ~aside() { join(); }
    template <class Work>
    void start(Work work) {
        join();
        has_ended_ = false;
        thread_ = std::thread{[this, work = std::move(work)] {
            work();
            has_ended_ = true;
        }};
    }
    [[nodiscard]] bool has_ended() const { return has_ended_; }

   private:
    void join() {
        if (thread_.joinable()) thread_.join();
    }
    std::atomic<bool> has_ended_ = true;
    std::thread thread_;
};

[[nodiscard]] std::vector<std::byte> bytes_of(ferry::managed_tensor const& on_host) {
    auto const* const p = static_cast<std::byte const*>(on_host.view().data());
    return {p, p + on_host.view().nbytes()};
}

/// The floats behind a handle, on the host.
[[nodiscard]] ferry::managed_tensor floats_at(ferry::cuda::ipc_handle const& handle, std::uint64_t offset,
                                              std::int64_t count, std::int64_t step) {
    std::int64_t const shape[] = {count}, strides[] = {step};
    ferry::device const where{ferry::device_type::cuda, 0};
    return ferry::to_host(
        ferry::cuda::attach_handle(handle, offset,
                                   {static_cast<void*>(nullptr), ferry::dtype_of<float>, shape, strides, where}),
        ferry::cuda::system, ferry::already_ready);
}

/// What the importer has open.
struct state {
    ferry::cuda::shareable<> back_end;
    ferry::wire::memory description;
    std::optional<ferry::cuda::opened_allocation> memory, again;
    std::optional<ferry::cuda::stream> own;
    std::optional<gate> closed;
    std::byte* pinned = nullptr;  // not pinned when it is needed: that may wait for what a gate holds
    std::size_t brought = 0;
    int file = -1;
    ferry::ipc::session session;
    ferry::managed_tensor tensor;
    aside later;  // last: it uses the others

    void start(std::int32_t device) {
        must(cudaSetDevice(device));
        own.emplace(device);
        load_kernels();
        if (pinned == nullptr) must(cudaMallocHost(reinterpret_cast<void**>(&pinned), std::size_t{8} << 20));
    }
    void bring(void const* from, std::size_t n) {
        std::memset(pinned, 0xDB, n);
        brought = n;
        must(cudaMemcpyAsync(pinned, from, n, cudaMemcpyDeviceToHost, own->get()));
    }

    [[nodiscard]] ferry::stream_token on() { return *own; }
    [[nodiscard]] std::vector<std::byte> mark(ferry::stream_token s) {
        ferry::ipc::event_handle mark{};
        if (!memory->record_done(s, mark)) return {};
        return {mark.begin(), mark.end()};
    }

    std::vector<std::byte> carry_out(order_of_work what, std::span<std::byte const> payload) {
        using enum order_of_work;
        switch (what) {
            case open: {
                std::int32_t where = -1, with_file = -1;
                std::memcpy(&where, payload.data(), sizeof where);
                std::memcpy(&with_file, payload.data() + sizeof where, sizeof with_file);
                auto const d = ferry::wire::from_bytes(payload.subspan(2 * sizeof where));
                description = d.memories.at(0);
                ferry::ipc::opening how{};
                if (where >= 0) how.where = ferry::device{ferry::device_type::cuda, where};
                if (with_file >= 0) how.file = file;
                memory.emplace(back_end.open_memory(description, how));
                start(memory->device().id);
                auto const address = reinterpret_cast<std::uintptr_t>(memory->data());
                auto const* const p = reinterpret_cast<std::byte const*>(&address);
                return {p, p + sizeof address};
            }
            case receive:
                memory->wait_ready(description, on());
                bring(memory->data(), description.length);
                return {};
            case finish: own->wait(); return {pinned, pinned + std::exchange(brought, 0)};
            case overwrite:
                must(cudaMemsetAsync(memory->data(), static_cast<int>(payload[0]), description.length, own->get()));
                return {};
            case hold: closed.emplace(own->get()); return {};
            case release: closed.reset(); return {};
            case done: return mark(on());
            case done_idle: {
                ferry::cuda::stream const idle{memory->device().id};
                return mark(idle);
            }
            case open_again: again.emplace(back_end.open_memory(description, {})); return {};
            case let_go: memory.reset(); return {};
            case let_go_later: later.start([this] { memory.reset(); }); return {};
            case attach:
                if (!own) start(0);
                tensor = ferry::ipc::attach(ferry::wire::from_bytes(payload), {.session = &session, .stream = on()},
                                            back_end);
                return {std::byte{tensor.view().is_read_only()}};
            case elements:
                return bytes_of(ferry::to_dlpack(ferry::managed_tensor{std::move(tensor)},
                                                 {.device = ferry::cpu, .stream = {}}, back_end, on()));
            case copy_later: bring(tensor.view().data(), static_cast<std::size_t>(tensor.view().nbytes())); return {};
            case drop: tensor = {}; return {};
            case drop_later: later.start([this] { tensor = {}; }); return {};
            case is_gone: return {std::byte{later.has_ended()}};
            case look: {
                ferry::cuda::ipc_handle handle{};
                std::uint64_t offset = 0;
                std::int64_t count = 0, step = 0;
                std::memcpy(handle.data(), payload.data(), sizeof handle);
                std::memcpy(&offset, payload.data() + sizeof handle, sizeof offset);
                std::memcpy(&count, payload.data() + sizeof handle + sizeof offset, sizeof count);
                std::memcpy(&step, payload.data() + sizeof handle + 2 * sizeof offset, sizeof step);
                return bytes_of(floats_at(handle, offset, count, step));
            }
        }
        throw std::logic_error{"an unknown order"};
    }
};

}  // namespace

int serve_as_importer(int socket) {
    state s;
    std::uint32_t what = 0;
    std::vector<std::byte> payload;
    while (receive_message(socket, what, payload)) {
        std::uint32_t code = 0;
        std::vector<std::byte> reply;
        try {
            if (what == pass_file) s.file = receive_file(socket);
            else reply = s.carry_out(static_cast<order_of_work>(what), payload);
        } catch (ferry::error const& e) {
            code = static_cast<std::uint32_t>(e.code());
            auto const* const text = reinterpret_cast<std::byte const*>(e.what());
            reply.assign(text, text + std::strlen(e.what()));
        } catch (std::exception const& e) {
            std::fprintf(stderr, "importer: %s\n", e.what());
            return 1;
        }
        if (!send_message(socket, code, reply)) break;
    }
    return 0;
}

int look_at(char const* handle, char const* offset, char const* count, char const* pool) {
    ferry::cuda::ipc_handle bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        unsigned byte = 0;
        if (std::sscanf(handle + 2 * i, "%2x", &byte) != 1) return 2;
        bytes[i] = static_cast<std::byte>(byte);
    }
    auto const n = std::strtoll(count, nullptr, 10);
    auto const begin = std::strtoull(offset, nullptr, 10);
    try {
        auto const found = [&] {
            if (pool == nullptr) return floats_at(bytes, begin, n, 1);
            ferry::cuda::imported_memory memory{ferry::cuda::imported_pool{std::atoi(pool), 0}, bytes};
            std::int64_t const shape[] = {n};
            ferry::tensor_view const view{
                memory.data() + begin, ferry::dtype_of<float>, shape, {}, {ferry::device_type::cuda, 0}};
            return ferry::to_host(ferry::make_managed(std::move(memory), view), ferry::cuda::system,
                                  ferry::already_ready);
        }();
        for (std::int64_t i = 0; i < n; ++i)
            std::printf("%g ", static_cast<double>(static_cast<float const*>(found.view().data())[i]));
    } catch (ferry::error const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return 0;
}

importer::importer() {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) throw std::runtime_error{"socketpair"};
    auto const number = std::to_string(both[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
        ::close(both[0]);
        ::execl("/proc/self/exe", "gpu", "--importer", number.c_str(), nullptr);
        ::_exit(127);
    }
    ::close(both[1]);
    socket_ = both[0];
    if (pid_ < 0) throw std::runtime_error{"fork"};
}

importer::~importer() {
    ::close(socket_);
    if (pid_ >= 0 && !wait()) kill();
}

void importer::kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), &status_, 0);
}

bool importer::wait() {
    for (int i = 0; i < 500; ++i) {
        if (::waitpid(pid_, &status_, WNOHANG) != 0) {
            pid_ = -1;
            return true;
        }
        ::usleep(10'000);
    }
    return false;
}

std::string importer::ending() {
    if (pid_ >= 0 && !wait()) return "it closed its socket, and runs";
    if (WIFSIGNALED(status_)) return std::string{"signal "} + strsignal(WTERMSIG(status_));
    return "exit status " + std::to_string(WEXITSTATUS(status_));
}

answer importer::tell(order_of_work what, std::span<std::byte const> payload) {
    std::uint32_t code = 0;
    answer a;
    if (!send_message(socket_, static_cast<std::uint32_t>(what), payload) || !receive_message(socket_, code, a.bytes))
        throw std::runtime_error{"the importer is gone: " + ending()};
    a.code = static_cast<ferry::errc>(code);
    return a;
}

answer importer::open(std::span<std::byte const> descriptor, std::int32_t device, int file) {
    std::vector<std::byte> payload(2 * sizeof device + descriptor.size());
    std::memcpy(payload.data(), &device, sizeof device);
    std::memcpy(payload.data() + sizeof device, &file, sizeof file);
    std::memcpy(payload.data() + 2 * sizeof device, descriptor.data(), descriptor.size());
    return tell(order_of_work::open, payload);
}

bool importer::passes(int file) {
    std::uint32_t code = 0;
    std::vector<std::byte> nothing;
    return send_message(socket_, pass_file, {}) && send_file(socket_, file) &&
           receive_message(socket_, code, nothing) && code == 0;
}

}  // namespace support
