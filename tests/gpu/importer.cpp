#include <ferry/column.hpp>
#include <ferry/cuda/attach_handle.hpp>
#include <ferry/cuda/attach_handles.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/send.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/subscriber.hpp>
#include <ferry/ipc/unique_fd.hpp>
#include <ferry/wire/binary.hpp>
#include <gpu/gate.hpp>
#include <gpu/importer.hpp>
#include <support/ipc.hpp>
#include <support/patience.hpp>
#include <support/random_columns.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace {

std::atomic<std::int64_t> memories_opened = 0, memories_closed = 0, events_opened = 0;

template <class Function>
Function* next_of(char const* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t handle, unsigned flags) {
    static auto* const next = next_of<decltype(cudaIpcOpenMemHandle)>("cudaIpcOpenMemHandle");
    cudaError_t const e = next(p, handle, flags);
    if (e == cudaSuccess) ++memories_opened;
    return e;
}
extern "C" cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void* p) {
    static auto* const next = next_of<decltype(cudaIpcCloseMemHandle)>("cudaIpcCloseMemHandle");
    cudaError_t const e = next(p);
    if (e == cudaSuccess) ++memories_closed;
    return e;
}
extern "C" cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
    static auto* const next = next_of<decltype(cudaIpcOpenEventHandle)>("cudaIpcOpenEventHandle");
    cudaError_t const e = next(event, handle);
    if (e == cudaSuccess) ++events_opened;
    return e;
}

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

constexpr std::uint32_t pass_file = 0xf11e;

/// Work that may block, on its own thread, so that the importer keeps serving orders.
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

template <class... Numbers>
[[nodiscard]] std::vector<std::byte> as_bytes(Numbers... n) {
    std::array<std::int64_t, sizeof...(n)> const all{static_cast<std::int64_t>(n)...};
    auto const* const p = reinterpret_cast<std::byte const*>(all.data());
    return {p, p + sizeof all};
}
[[nodiscard]] std::int64_t number_at(std::span<std::byte const> payload, std::size_t which) {
    std::int64_t n = 0;
    std::memcpy(&n, payload.subspan(which * sizeof n, sizeof n).data(), sizeof n);
    return n;
}

[[nodiscard]] std::int64_t entries_of(char const* folder) {
    auto const all = std::filesystem::directory_iterator{folder};
    return std::distance(begin(all), end(all));
}
/// Whether the next order has come.
[[nodiscard]] bool is_told(int socket) {
    pollfd p{socket, POLLIN, 0};
    return ::poll(&p, 1, 0) != 0;
}

/// The device and the description in an order to open memory.
struct opening {
    std::int32_t device = -1, file = -1;
    ferry::wire::descriptor descriptor;

    explicit opening(std::span<std::byte const> payload) {
        std::memcpy(&device, payload.data(), sizeof device);
        std::memcpy(&file, payload.data() + sizeof device, sizeof file);
        descriptor = ferry::wire::from_bytes(payload.subspan(sizeof device + sizeof file));
    }
    [[nodiscard]] std::optional<ferry::device> where() const {
        if (device < 0) return {};
        return ferry::device{ferry::device_type::cuda, device};
    }
};

/// The memory that the importer has opened.
struct state {
    int socket;
    ferry::cuda::shareable<> back_end, other_back_end;
    ferry::wire::memory description;
    std::optional<ferry::cuda::opened_allocation> memory, again;
    std::optional<ferry::cuda::stream> own, captured;
    std::optional<gate> closed;
    std::byte* pinned = nullptr;  // not pinned when it is needed: that may wait for what a gate holds
    std::size_t brought = 0;
    std::vector<ferry::ipc::unique_fd> passed{};
    std::int32_t own_device = -1;
    ferry::ipc::opening how{};
    ferry::ipc::session session;
    ferry::managed_tensor tensor{};
    std::optional<ferry::column> columns{};
    ferry::ipc::shared shared{};
    std::optional<ferry::ipc::subscriber> followed{};
    aside later{};  // last: it uses the others

    explicit state(int told_by) : socket{told_by} {}
    void start(std::int32_t device) {
        if (device == own_device) return;
        must(cudaSetDevice(device));
        own_device = device;
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

    void attach_as(opening const& o, std::span<int const> with) {
        start(std::max(o.device, 0));
        tensor = ferry::ipc::attach(
            o.descriptor, {.session = &session, .stream = on(), .device = o.where(), .files = with}, back_end);
    }
    /// The last file that was passed, if the order uses it.
    [[nodiscard]] int file_of(opening const& o) const {
        return o.file < 0 || passed.empty() ? -1 : passed.back().get();
    }
    void attach_as(opening const& o) {
        int const with[] = {file_of(o)};
        attach_as(o, with);
    }
    /// Calls `f` with the files that were passed, which it closes then.
    void with_passed(auto f) {
        auto const received = std::exchange(passed, {});
        std::vector<int> with;
        for (auto const& file : received) with.push_back(file.get());
        f(with);
    }

    /// 1 MiB of one byte value, queued on its stream.
    [[nodiscard]] ferry::managed_tensor fresh(std::byte value) {
        using owner = ferry::buffer<ferry::cuda::device_space>;
        static constexpr std::int64_t shape[] = {1 << 20};
        owner made{std::size_t{1} << 20, ferry::cuda::device_space{own_device}};
        must(cudaMemsetAsync(made.data(), static_cast<int>(value), std::size_t{1} << 20, own->get()));
        return ferry::make_managed(std::move(made), [](owner& o) {
            return ferry::tensor_view{o.data(), ferry::dtype_of<std::uint8_t>, shape, {}, o.device()};
        });
    }
    [[nodiscard]] std::vector<std::byte> share_it(ferry::managed_tensor t, ferry::copy_policy copy = {}) {
        shared = ferry::ipc::share(std::move(t), {.session = &session, .copy = copy, .ready_on = on()}, back_end);
        return ferry::wire::to_bytes(shared.descriptor());
    }

    std::vector<std::byte> carry_out(order_of_work what, std::span<std::byte const> payload) {
        using enum order_of_work;
        switch (what) {
            case open: {
                opening const o{payload};
                description = o.descriptor.memories.at(0);
                how = {o.where(), file_of(o)};
                memory.emplace(back_end.open_memory(description, how));
                start(o.device < 0 ? memory->device().id : o.device);
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
            case open_again: again.emplace(back_end.open_memory(description, how)); return {};
            case open_by_other: again.emplace(other_back_end.open_memory(description, how)); return {};
            case keep_again:
                memory.emplace(std::move(*again));
                again.reset();
                return {};
            case place: {
                auto const* const begin = memory->data() - description.offset;
                auto const told = ferry::cuda::detail::mapped_bytes_from(begin, 0);
                return as_bytes(memory->device().id, told == 0 ? std::int64_t{-1} : static_cast<std::int64_t>(told));
            }
            case peek: {
                std::vector<std::byte> found(static_cast<std::size_t>(number_at(payload, 1)));
                ferry::cuda::check(cudaMemcpy(found.data(), memory->data() + number_at(payload, 0), found.size(),
                                              cudaMemcpyDeviceToHost),
                                   "cudaMemcpy");
                return found;
            }
            case let_go: memory.reset(); return {};
            case let_go_later: later.start([this] { memory.reset(); }); return {};
            case attach: attach_as(opening{payload}); return {std::byte{tensor.view().is_read_only()}};
            case elements:
                own->wait();
                return bytes_of(ferry::to_dlpack(ferry::managed_tensor{std::move(tensor)},
                                                 {.device = ferry::cpu, .layout = ferry::layout::contiguous}, back_end,
                                                 ferry::already_ready));
            case copy_later: bring(tensor.view().data(), static_cast<std::size_t>(tensor.view().nbytes())); return {};
            case fill_later: {
                auto const& v = tensor.view();
                auto const bytes = static_cast<std::size_t>(v.nbytes());
                must(cudaMemsetAsync(v.writable_data(), static_cast<int>(payload[0]), bytes, own->get()));
                return {};
            }
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
            case attach_files: {
                opening const o{payload};
                with_passed([&](std::span<int const> with) { attach_as(o, with); });
                return {};
            }
            case rounds: {
                opening const o{payload};
                std::int64_t n = 0;
                for (; !is_told(socket); ++n) {
                    attach_as(o);
                    bring(tensor.view().data(), static_cast<std::size_t>(tensor.view().nbytes()));
                    tensor = {};
                }
                return as_bytes(n);
            }
            case attach_thousand: {
                opening const o{payload};
                start(std::max(o.device, 0));
                int const with[] = {file_of(o)};
                ferry::ipc::session keeps_none{{.unused_mappings = 0}};
                for (int i = 0; i < 1000; ++i)
                    static_cast<void>(ferry::ipc::attach(
                        o.descriptor, {.session = &keeps_none, .stream = on(), .device = o.where(), .files = with},
                        back_end));
                return {};
            }
            case attach_columns: {
                opening const o{payload};
                start(std::max(o.device, 0));
                with_passed([&](std::span<int const> with) {
                    columns.emplace(ferry::ipc::attach_column(
                        o.descriptor, {.session = &session, .stream = on(), .device = o.where(), .files = with},
                        back_end));
                });
                std::string text;
                for (int i = 0; i < columns->child_count(); ++i) {
                    auto const d = columns->child(i).device();
                    text += std::string{ferry::name(d.type)} + ':' + std::to_string(d.id) + ' ';
                }
                auto const* const p = reinterpret_cast<std::byte const*>(text.data());
                return {p, p + text.size()};
            }
            case frame: {
                ferry::cuda::ipc_handle mask{}, data{};
                std::memcpy(mask.data(), payload.data(), sizeof mask);
                std::memcpy(data.data(), payload.data() + sizeof mask, sizeof data);
                auto const numbers = payload.subspan(sizeof mask + sizeof data);
                auto const length = number_at(numbers, 0);
                auto const mask_bytes = static_cast<std::uint64_t>(number_at(numbers, 1));
                auto const data_offset = static_cast<std::uint64_t>(number_at(numbers, 2));
                auto const data_bytes = static_cast<std::uint64_t>(number_at(numbers, 3));
                start(0);
                // [handles]
                // A table of one column of doubles, whose mask and data are in two allocations of another program.
                // A buffer is a handle, an offset and bytes; {}: no mask.
                ferry::cuda::ipc_handle const handles[] = {mask, data};
                ferry::wire::node const prices{
                    .format = "g",
                    .name = "price",
                    .length = length,
                    .buffers = {{0, 0, mask_bytes}, {1, data_offset, data_bytes}},
                };
                ferry::wire::node const table{.format = "+s", .length = length, .buffers = {{}}, .children = {prices}};
                ferry::column const frame = ferry::cuda::attach_handles(table, handles, ferry::device_type::cuda);
                // [/handles]
                columns.emplace(frame);
                return {};
            }
            case frame_of_one: {  // a handle for all buffers: numbers and text, without masks
                ferry::cuda::ipc_handle handles[1];
                std::memcpy(handles[0].data(), payload.data(), sizeof handles[0]);
                start(0);
                columns.emplace(ferry::cuda::attach_handles(
                    {.format = "+s",
                     .length = 3,
                     .buffers = {{}},
                     .children =
                         {{.format = "i", .name = "n", .length = 3, .buffers = {{}, {0, 64, 12}}},
                          {.format = "u", .name = "t", .length = 3, .buffers = {{}, {0, 128, 16}, {0, 192, 5}}}}},
                    handles, ferry::device_type::cuda));
                return {};
            }
            case rows: {
                std::string text;
                for (auto const& row : shown(columns->to(ferry::cpu, ferry::cuda::system, on()))) text += row + '\n';
                columns.reset();
                auto const* const p = reinterpret_cast<std::byte const*>(text.data());
                return {p, p + text.size()};
            }
            case follow: {
                start(0);
                std::string const both{reinterpret_cast<char const*>(payload.data()), payload.size()};
                auto const line = both.find('\n');
                if (line != both.npos) {
                    followed.emplace(both.substr(line + 1),
                                     ferry::ipc::topic_options{.directory = both.substr(0, line)});
                } else {
                    std::vector<ferry::ipc::unique_fd> file;
                    file.push_back(std::move(passed.front()));
                    passed.erase(passed.begin());
                    followed.emplace(std::move(file));
                }
                return {};
            }
            case next_frame: {
                std::vector<int> files;
                for (auto const& f : passed) files.push_back(f.get());
                auto frame = followed->next(support::patience, {.stream = on(), .files = files}, back_end);
                tensor = std::move(frame.value().value);
                return as_bytes(static_cast<std::int64_t>(frame->generation));
            }
            case begin_capture:
                captured.emplace(own_device);
                must(cudaStreamBeginCapture(captured->get(), cudaStreamCaptureModeGlobal));
                return {};
            case end_capture: {
                cudaGraph_t graph = nullptr;
                cudaError_t const e = cudaStreamEndCapture(captured->get(), &graph);
                if (graph != nullptr) must(cudaGraphDestroy(graph));
                captured.reset();
                return {std::byte{e == cudaSuccess && graph != nullptr}};
            }
            case usage: {
                session.trim();
                auto const now = usage_here();
                auto const* const p = reinterpret_cast<std::byte const*>(&now);
                return {p, p + sizeof now};
            }
            case share: start(0); return share_it(fresh(payload[0]));
            case share_held: {
                start(0);
                auto made = fresh(payload[0]);
                own->wait();
                shared = {};  // to free memory waits for the gate
                session.collect();
                closed.emplace(own->get());
                return share_it(std::move(made));
            }
            case share_columns: {
                std::vector<ferry::column> children(payload.size());
                for (auto device = static_cast<std::int32_t>(payload.size()); device-- > 0;) {
                    start(device);
                    auto const i = static_cast<std::size_t>(device);
                    children[i] = ferry::from_tensors(fresh(payload[i]), {}, back_end, on());
                    if (device != 0) own->wait();  // its stream ends
                }
                shared = ferry::ipc::share(ferry::make_struct(children).slice(0, 50),
                                           {.session = &session, .copy = ferry::copy_policy::never, .ready_on = on()},
                                           back_end);
                return ferry::wire::to_bytes(shared.descriptor());
            }
            case share_attached: return share_it(std::move(tensor), ferry::copy_policy::never);
            case close_share: shared = {}; return {};
            case share_rounds: {
                std::int64_t n = 0;
                start(0);
                for (; !is_told(socket); ++n) static_cast<void>(share_it(fresh(std::byte{1})));
                return as_bytes(n);
            }
        }
        throw std::logic_error{"an unknown order"};
    }
};

}  // namespace

ipc_usage usage_here() {
    return {entries_of("/proc/self/fd"), static_cast<std::int64_t>(support::mapped_segments()), memories_opened,
            memories_closed, events_opened};
}

int serve_as_importer(int socket) {
    state s{socket};
    std::uint32_t what = 0;
    std::vector<std::byte> payload;
    while (receive_message(socket, what, payload)) {
        std::uint32_t code = 0;
        std::vector<std::byte> reply;
        try {
            if (what == pass_file) {
                auto came = ferry::ipc::receive(socket, {.patience = patience});
                s.passed.push_back(came.files.empty() ? ferry::ipc::unique_fd{} : std::move(came.files[0]));
            } else {
                reply = s.carry_out(static_cast<order_of_work>(what), payload);
            }
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

int inspect_memory(char const* handle, char const* offset, char const* count, char const* pool) {
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

importer::importer(char const* visible) {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0) throw std::runtime_error{"socketpair"};
    auto const number = std::to_string(both[1]);
    std::string const said = std::string{"CUDA_VISIBLE_DEVICES="} + (visible == nullptr ? "" : visible);
    std::vector<char const*> environment;
    for (char** at = environ; *at != nullptr; ++at)
        if (visible == nullptr || std::strncmp(*at, said.data(), said.find('=') + 1) != 0) environment.push_back(*at);
    if (visible != nullptr) environment.push_back(said.c_str());
    environment.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
        ::fcntl(both[1], F_SETFD, 0);
        ::execle("/proc/self/exe", "gpu", "--importer", number.c_str(), nullptr,
                 const_cast<char* const*>(environment.data()));
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

void importer::signal(int which) { ::kill(pid_, which); }

bool importer::wait() {
    auto const end = std::chrono::steady_clock::now() + support::patience;
    while (::waitpid(pid_, &status_, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() > end) return false;
        ::usleep(1'000);
    }
    pid_ = -1;
    return true;
}

std::string importer::ending() {
    if (pid_ >= 0 && !wait()) return "it closed its socket, and runs";
    if (WIFSIGNALED(status_)) return std::string{"signal "} + strsignal(WTERMSIG(status_));
    return "exit status " + std::to_string(WEXITSTATUS(status_));
}

void importer::begin(order_of_work what, std::span<std::byte const> payload) {
    if (!send_message(socket_, static_cast<std::uint32_t>(what), payload))
        throw std::runtime_error{"the importer is gone: " + ending()};
}
answer importer::hear() {
    std::uint32_t code = 0;
    answer a;
    if (!receive_message(socket_, code, a.bytes)) throw std::runtime_error{"the importer is gone: " + ending()};
    a.code = static_cast<ferry::errc>(code);
    return a;
}
answer importer::tell(order_of_work what, std::span<std::byte const> payload) {
    begin(what, payload);
    return hear();
}

ipc_usage importer::usage() {
    auto const a = tell(order_of_work::usage);
    ipc_usage u{};
    std::memcpy(&u, a.bytes.data(), std::min(sizeof u, a.bytes.size()));
    return u;
}

answer importer::open(std::span<std::byte const> descriptor, std::int32_t device, int file) {
    return tell_where(order_of_work::open, descriptor, device, file);
}
answer importer::attach(std::span<std::byte const> descriptor, std::int32_t device, int file) {
    return tell_where(order_of_work::attach, descriptor, device, file);
}
answer importer::attach_columns(std::span<std::byte const> descriptor, std::int32_t device,
                                std::span<int const> files) {
    pass(files);
    return tell_where(order_of_work::attach_columns, descriptor, device);
}
answer importer::attach_files(std::span<std::byte const> descriptor, std::int32_t device, std::span<int const> files) {
    pass(files);
    return tell_where(order_of_work::attach_files, descriptor, device);
}
void importer::pass(std::span<int const> files) {
    for (int const file : files)
        if (!passes(file)) throw std::runtime_error{"the importer is gone: " + ending()};
}
answer importer::tell_where(order_of_work what, std::span<std::byte const> descriptor, std::int32_t device, int file) {
    std::vector<std::byte> payload(2 * sizeof device + descriptor.size());
    std::memcpy(payload.data(), &device, sizeof device);
    std::memcpy(payload.data() + sizeof device, &file, sizeof file);
    std::memcpy(payload.data() + 2 * sizeof device, descriptor.data(), descriptor.size());
    return tell(what, payload);
}

bool importer::passes(int file) {
    std::uint32_t code = 0;
    std::vector<std::byte> nothing;
    if (!send_message(socket_, pass_file, {})) return false;
    ferry::ipc::send(socket_, {}, {&file, file < 0 ? 0U : 1U}, {.patience = patience});
    return receive_message(socket_, code, nothing) && code == 0;
}

}  // namespace support
