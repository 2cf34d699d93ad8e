// Handles between two processes: this one exports, a second process of this program imports.
#include <ferry/cuda/attach_handle.hpp>
#include <ferry/cuda/attach_handles.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/wire/binary.hpp>
#include <gpu/importer.hpp>
#include <gpu/world.hpp>
#include <support/random_columns.hpp>

#include <unistd.h>

#include <string>
#include <vector>

namespace {

using namespace support;
using ferry::errc;
using ferry::ipc::byte_range;
using enum support::order_of_work;
namespace cuda = ferry::cuda;

constexpr std::size_t mib = std::size_t{1} << 20;

std::vector<std::byte> described(ferry::wire::memory const& m) {
    ferry::wire::descriptor d;
    d.memories.push_back(m);
    d.root =
        ferry::wire::tensor{.dtype = ferry::dtype_of<std::uint8_t>, .shape = {static_cast<std::int64_t>(m.length)}};
    return ferry::wire::to_bytes(d);
}

byte_range range(void* base, std::size_t offset, std::size_t length) {
    return {static_cast<std::byte*>(base) + offset, length, 0};
}

bool is_all(std::vector<std::byte> const& bytes, unsigned char value, std::size_t n) {
    if (bytes.size() != n) return false;
    for (auto const b : bytes)
        if (b != std::byte{value}) return false;
    return true;
}

int number_of(answer const& a) { return a.bytes.size() == 1 ? static_cast<int>(a.bytes[0]) : -1; }

/// Pins memory that is released later: memory freed while it is pinned affects the next allocation at its address.
class pinned_for_now {
   public:
    explicit pinned_for_now(std::vector<std::byte>& bytes) : begin_{bytes.data()} {
        must(cudaHostRegister(begin_, bytes.size(), cudaHostRegisterDefault));
    }
    pinned_for_now(pinned_for_now const&) = delete;
    pinned_for_now& operator=(pinned_for_now const&) = delete;
    ~pinned_for_now() { static_cast<void>(cudaHostUnregister(begin_)); }

   private:
    std::byte* begin_;
};

ferry::buffer<cuda::device_space> cuda_malloc(std::size_t bytes) {
    return ferry::buffer<cuda::device_space>{bytes, cuda::device_space{0}};
}

/// Whether the work has completed that an importer has recorded.
bool is_done(ferry::ipc::event_handle const& done) { return cuda::ipc_event{done, 0}.is_done(); }

}  // namespace

TEST_CASE("ipc: another process reads a slice in place, ordered after the exporter's stream, without blocking a host") {
    load_kernels();
    auto const memory = cuda_malloc(4 * mib);
    fill(memory.data(), 1, 4 * mib);
    cuda::shareable back_end;
    test_stream s;
    importer other;
    std::size_t const offset = mib + 4096, length = 64 * 1024;
    gate closed{s.get()};
    must(cudaMemsetAsync(static_cast<std::byte*>(memory.data()) + offset, 7, length, s.get()));
    auto const exported = back_end.export_memory(range(memory.data(), offset, length), gpu, s.token());
    CHECK(exported.description().offset == offset);
    CHECK(exported.description().allocation == 4 * mib);
    CHECK(exported.description().ready.size() == 64);
    CHECK_GATED(!closed.is_open());
    auto const opened = other.open(described(exported.description()));
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    CHECK(other.tell(receive).code == errc::ok);  // it has queued its wait and its copy, and come back
    CHECK_GATED(!closed.is_open());
    closed.open();
    CHECK(is_all(other.tell(finish).bytes, 7, length));
    s.finish();
    CHECK_GATED(!closed.was_forced());
}

TEST_CASE("ipc: the exporter sees the importer's writes after its done event has completed") {
    load_kernels();
    auto const memory = cuda_malloc(2 * mib);
    fill(memory.data(), 1, 2 * mib);
    cuda::shareable back_end;
    test_stream s;
    importer other;
    auto exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, s.token());
    REQUIRE(other.open(described(exported.description())).code == errc::ok);
    REQUIRE(other.tell(hold).code == errc::ok);
    std::byte const nine[] = {std::byte{9}};
    REQUIRE(other.tell(overwrite, nine).code == errc::ok);
    auto const marked = other.tell(done);
    REQUIRE(marked.bytes.size() == 64);
    ferry::ipc::event_handle done_event;
    std::memcpy(done_event.data(), marked.bytes.data(), 64);
    CHECK_GATED(!is_done(done_event));
    CHECK(exported.order_after(done_event, s.token()));  // queued, and nothing blocks
    std::vector<std::byte> host(2 * mib);
    pinned_for_now const while_here{host};
    must(cudaMemcpyAsync(host.data(), memory.data(), host.size(), cudaMemcpyDeviceToHost, s.get()));
    CHECK_GATED(!s.is_idle());
    REQUIRE(other.tell(release).code == errc::ok);
    s.finish();
    CHECK(is_all(host, 9, 2 * mib));
    CHECK(is_done(done_event));
    CHECK(exported.order_after(done_event, {}));
    CHECK(other.tell(let_go).code == errc::ok);
}

TEST_CASE("ipc: the last completion event covers the work of every stream recorded before") {
    load_kernels();
    auto const memory = cuda_malloc(2 * mib);
    fill(memory.data(), 1, 2 * mib);
    cuda::shareable back_end;
    test_stream s;
    importer other;
    auto exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, s.token());
    std::vector<std::byte> host(2 * mib);
    pinned_for_now const while_here{host};
    REQUIRE(other.open(described(exported.description())).code == errc::ok);
    REQUIRE(other.tell(hold).code == errc::ok);
    std::byte const nine[] = {std::byte{9}};
    REQUIRE(other.tell(overwrite, nine).code == errc::ok);
    REQUIRE(other.tell(done).bytes.size() == 64);
    auto const marked = other.tell(done_idle);  // nothing is announced but this
    REQUIRE(marked.bytes.size() == 64);
    ferry::ipc::event_handle done_event;
    std::memcpy(done_event.data(), marked.bytes.data(), 64);
    ::usleep(20'000);  // for what is not held to pass
    CHECK_GATED(!is_done(done_event));
    CHECK(exported.order_after(done_event, s.token()));
    must(cudaMemcpyAsync(host.data(), memory.data(), host.size(), cudaMemcpyDeviceToHost, s.get()));
    ::usleep(20'000);
    CHECK_GATED(!s.is_idle());
    REQUIRE(other.tell(release).code == errc::ok);
    s.finish();
    CHECK(is_all(host, 9, 2 * mib));
    CHECK(is_done(done_event));
}

TEST_CASE("ipc: memory is closed, and its event reused, only after the recorded work has completed") {
    load_kernels();
    auto const memory = cuda_malloc(2 * mib);
    fill(memory.data(), 1, 2 * mib);
    cuda::shareable back_end;
    importer other;
    auto exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, {});
    REQUIRE(other.open(described(exported.description())).code == errc::ok);
    // The driver may wait when the last mapping is closed; this keeps one open.
    REQUIRE(other.tell(open_again).code == errc::ok);
    REQUIRE(other.tell(hold).code == errc::ok);
    std::byte const nine[] = {std::byte{9}};
    REQUIRE(other.tell(overwrite, nine).code == errc::ok);
    auto const marked = other.tell(done);
    REQUIRE(marked.bytes.size() == 64);
    ferry::ipc::event_handle done_event;
    std::memcpy(done_event.data(), marked.bytes.data(), 64);
    REQUIRE(other.tell(let_go_later).code == errc::ok);
    ::usleep(50'000);
    CHECK_GATED(number_of(other.tell(is_gone)) == 0);
    CHECK_GATED(!is_done(done_event));
    REQUIRE(other.tell(release).code == errc::ok);
    support::until("the memory to be closed", [&] { return number_of(other.tell(is_gone)) == 1; });
    CHECK(is_done(done_event));
    std::vector<std::byte> host(2 * mib);
    must(cudaMemcpy(host.data(), memory.data(), host.size(), cudaMemcpyDeviceToHost));
    CHECK(is_all(host, 9, 2 * mib));
}

// The driver may wait by itself when it closes a mapping.
TEST_CASE("ipc: the destructor of a completion event waits for the recorded work") {
    auto mark = cuda::detail::completion_event::make(std::make_shared<cuda::detail::ipc_events>(std::size_t{2}), 0);
    REQUIRE(mark);
    test_stream const s;
    gate closed{s.get()};
    mark->add(s.token());
    CHECK_GATED(!closed.is_open());
    opener const later{closed};
    mark.reset();
    CHECK_GATED(closed.is_open());
    CHECK_GATED(!closed.was_forced());
}

TEST_CASE("ipc: a returned event is reused only after its recorded work has completed") {
    if (!gates_hold()) return;  // then all that was recorded runs at once
    cuda::ipc_event_pool pool{0, 2};
    test_stream s;
    auto pending = pool.take();
    REQUIRE(pending);
    gate closed{s.get()};
    pending->record(s.get());
    auto const its_handle = pending->handle();
    pool.put(std::move(*pending));
    auto another = pool.take();
    REQUIRE(another);
    CHECK(another->handle() != its_handle);
    CHECK(!pool.take());
    auto const rested = another->handle();
    pool.put(std::move(*another));  // behind the one that is pending
    another = pool.take();
    REQUIRE(another);
    CHECK(another->handle() == rested);
    CHECK_GATED(!closed.is_open());
    closed.open();
    s.finish();
    CHECK_GATED(!closed.was_forced());
    auto const again = pool.take();
    REQUIRE(again);
    CHECK(again->handle() == its_handle);
}

TEST_CASE("ipc: an event that cannot be opened is reported") {
    auto const memory = cuda_malloc(2 * mib);
    cuda::shareable back_end;
    auto exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, {});
    CHECK(exported.description().ready.empty());
    CHECK(!exported.order_after(ferry::ipc::event_handle{}, {}));
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("ipc: the exporting process cannot open its own handle, and the error states why") {
    auto const memory = cuda_malloc(2 * mib);
    cuda::shareable back_end;
    auto const exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, {});
    fails(errc::same_process, [&] { static_cast<void>(back_end.open_memory(exported.description(), {})); },
          {"session"});
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("ipc: the handle of freed memory is stale or out of range, never a wrong mapping") {
    cuda::shareable back_end;
    std::vector<std::byte> text;
    {
        auto const memory = cuda_malloc(64 * mib);
        text = described(back_end.export_memory(range(memory.data(), 0, 64 * mib), gpu, {}).description());
    }
    importer other;
    auto const opened = other.open(text);
    INFO(text_of(opened));
    CHECK(opened.code == errc::stale_handle);
}

TEST_CASE("ipc: bytes beyond the mapped allocation are refused, whatever size the descriptor states") {
    auto const memory = cuda_malloc(2 * mib);
    cuda::shareable back_end;
    auto const exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, {});
    auto forged = exported.description();
    forged.allocation = std::uint64_t{1} << 40;
    forged.offset = 512 * mib;
    importer other;
    CHECK(other.open(described(forged)).code == errc::out_of_range);
    forged = exported.description();
    for (auto& byte : forged.handle) byte ^= std::byte{0xff};
    CHECK(other.open(described(forged)).code == errc::stale_handle);
    forged = exported.description();
    forged.device[3] ^= 1;
    CHECK(other.open(described(forged)).code == errc::device_not_found);
    CHECK(other.open(described(exported.description())).code == errc::ok);  // it has survived all that
}

TEST_CASE("ipc: bytes past the 2 MiB block of a small allocation cannot be read") {
    auto const memory = cuda_malloc(4096);
    cuda::shareable back_end;
    auto const exported = back_end.export_memory(range(memory.data(), 0, 4096), gpu, {});
    importer other;
    auto const opened = other.open(described(exported.description()));
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    auto const place_of = other.tell(place).bytes;
    REQUIRE(place_of.size() == 16);
    std::int64_t told = 0;
    std::memcpy(&told, place_of.data() + 8, sizeof told);
    CHECK(told >= 4096);
    REQUIRE(told <= static_cast<std::int64_t>(2 * mib));
    auto const open = [&](std::uint64_t offset, std::uint64_t length) {
        auto forged = exported.description();
        forged.allocation = std::uint64_t{1} << 40;
        forged.offset = offset;
        forged.length = length;
        return other.open(described(forged)).code;
    };
    auto const end = static_cast<std::uint64_t>(told);
    CHECK(open(0, end) == errc::ok);
    CHECK(open(end - 1, 1) == errc::ok);
    CHECK(open(0, end + 1) == errc::out_of_range);
    CHECK(open(end, 1) == errc::out_of_range);
    CHECK(open(1, end) == errc::out_of_range);
    CHECK(open(2 * mib, 1) == errc::out_of_range);
}

TEST_CASE("ipc: a copy made for sharing is followed by zeros, not by freed data") {
    cuda::shareable back_end;
    test_stream const s;
    for (auto const on : {ferry::stream_token{}, s.token()}) {
        for (std::size_t const bytes : {std::size_t{0}, std::size_t{5000}, 2 * mib - 1, 2 * mib}) {
            CAPTURE(bytes);
            {
                auto const before = cuda_malloc(2 * mib);
                fill(before.data(), 0xA7, 2 * mib);
            }
            auto const made = back_end.allocate_exportable(gpu, bytes, on);
            s.finish();
            std::vector<std::byte> rest(2 * mib - bytes);
            must(cudaMemcpy(rest.data(), static_cast<std::byte*>(made.data()) + bytes, rest.size(),
                            cudaMemcpyDeviceToHost));
            CHECK(is_all(rest, 0, rest.size()));
        }
    }
}

TEST_CASE("ipc: memory is opened and closed during a graph capture, which stays valid") {
    auto const memory = cuda_malloc(2 * mib);
    fill(memory.data(), 8, 2 * mib);
    cuda::shareable back_end;
    test_stream const s;
    auto const exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, s.token());
    auto const text = described(exported.description());
    importer other;
    auto const first = other.open(text);
    REQUIRE_MESSAGE(first.code == errc::ok, text_of(first));
    REQUIRE(other.tell(let_go).code == errc::ok);
    REQUIRE(other.tell(begin_capture).code == errc::ok);
    auto const again = other.open(text);
    CHECK_MESSAGE(again.code == errc::ok, text_of(again));
    auto const received = other.tell(receive);  // opens the event
    CHECK_MESSAGE(received.code == errc::ok, text_of(received));
    CHECK(other.tell(done).bytes.size() == 64);
    auto const closed = other.tell(let_go);
    CHECK_MESSAGE(closed.code == errc::ok, text_of(closed));
    CHECK(number_of(other.tell(end_capture)) == 1);
    CHECK(is_all(other.tell(finish).bytes, 8, 2 * mib));
}

TEST_CASE("ipc: managed, pool and pinned memory is refused with the reason") {
    cuda::shareable back_end;
    ferry::buffer<cuda::managed_space> const managed_memory{4096};
    cuda::memory const pool_memory{gpu, 4096, {}};
    CHECK(std::strstr(back_end.refusal(range(managed_memory.data(), 0, 4096), gpu), "managed") != nullptr);
    CHECK(std::strstr(back_end.refusal(range(pool_memory.data(), 0, 4096), gpu), "pool") != nullptr);
    fails(errc::not_exportable,
          [&] { static_cast<void>(back_end.export_memory(range(pool_memory.data(), 0, 4096), gpu, {})); }, {"copy"});
    ferry::buffer<cuda::pinned_space> const pinned_memory{4096};
    fails(errc::foreign_pointer,
          [&] { static_cast<void>(back_end.refusal(range(pinned_memory.data(), 0, 4096), gpu)); });
    auto const own = back_end.allocate_exportable(gpu, 5000, {});
    CHECK(back_end.refusal(range(own.data(), 0, 5000), gpu) == nullptr);
    CHECK(!cuda::allocation_of(own.data()).may_have_neighbours());
}

TEST_CASE("ipc: isolated sharing refuses memory that shares a block with other allocations") {
    cuda::shareable const isolating{cuda::system, {.isolate = true}};
    auto const small = cuda_malloc(4096), whole = cuda_malloc(2 * mib);
    CHECK(isolating.refusal(range(small.data(), 0, 4096), gpu) != nullptr);
    CHECK(isolating.refusal(range(whole.data(), 0, 4096), gpu) == nullptr);
}

TEST_CASE("ipc: an interior pointer has the handle of its allocation") {
    auto const memory = cuda_malloc(4 * mib);
    cuda::shareable back_end;
    auto const whole = back_end.export_memory(range(memory.data(), 0, 4 * mib), gpu, {});
    auto const slice = back_end.export_memory(range(memory.data(), 12345, 777), gpu, {});
    CHECK(whole.description().handle == slice.description().handle);
    CHECK(whole.description().id == slice.description().id);
    CHECK(slice.description().offset == 12345);
    CHECK(slice.description().length == 777);
}

TEST_CASE("ipc: memory allocated again at the same address has another id") {
    cuda::shareable back_end;
    std::uint64_t first = 0;
    void* at = nullptr;
    {
        auto const memory = cuda_malloc(32 * mib);
        at = memory.data();
        first = back_end.export_memory(range(at, 0, 1), gpu, {}).description().id;
    }
    auto const again = cuda_malloc(32 * mib);
    if (again.data() != at) MESSAGE("the address was not used again");
    CHECK(back_end.export_memory(range(again.data(), 0, 1), gpu, {}).description().id != first);
}

TEST_CASE("ipc: memory of an exportable pool is shared by the pool's file descriptor") {
    std::optional<cuda::pool> made;
    try {
        made.emplace(0, cuda::pool::sharing::posix_fd);
    } catch (ferry::error const& e) {
        MESSAGE("SKIPPED: this machine makes no exportable pools: ", shown(e.what()));
        return;
    }
    cuda::stream const s{0};
    {
        ferry::buffer<cuda::pool_space> const memory{2 * mib, cuda::pool_space{*made, s}};
        must(cudaMemsetAsync(memory.data(), 5, 2 * mib, s.get()));
        cuda::shareable back_end{cuda::system, {.pools = true}};
        auto const a = cuda::allocation_of(memory.data());
        CHECK(a.base == memory.data());
        CHECK(a.bytes >= 2 * mib);
        CHECK(back_end.refusal(range(memory.data(), 0, 2 * mib), gpu) == nullptr);
        auto const exported = back_end.export_memory(range(memory.data(), 4096, mib), gpu, s);
        CHECK(exported.description().kind == ferry::wire::memory_kind::cuda_pool);
        int const file = cuda::descriptor_of_pool(made->get());
        importer other;
        CHECK(other.open(described(exported.description())).code == errc::permission);  // the text alone does not do
        REQUIRE(other.passes(file));
        ::close(file);
        auto const opened = other.open(described(exported.description()), -1, 1);
        REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
        CHECK(other.tell(receive).code == errc::ok);
        CHECK(is_all(other.tell(finish).bytes, 5, mib));
        CHECK(other.tell(let_go).code == errc::ok);
    }
    s.wait();
}

TEST_CASE("ipc: without a free event the host waits instead") {
    load_kernels();
    auto const memory = cuda_malloc(2 * mib);
    cuda::shareable back_end{cuda::system, {.most_events = 1}};
    test_stream s;
    auto const first = back_end.export_memory(range(memory.data(), 0, 4096), gpu, s.token());
    CHECK(first.description().ready.size() == 64);
    must(cudaMemsetAsync(memory.data(), 3, 4096, s.get()));
    auto const second = back_end.export_memory(range(memory.data(), 0, 4096), gpu, s.token());
    CHECK(second.description().ready.empty());
    CHECK(s.is_idle());
}

TEST_CASE("ipc: events are reused, so that many shares need few") {
    auto const memory = cuda_malloc(2 * mib);
    cuda::shareable back_end{cuda::system, {.most_events = 4}};
    test_stream s;
    for (int i = 0; i < 5000; ++i) {
        CHECK(back_end.export_memory(range(memory.data(), 0, 4096), gpu, s.token()).description().ready.size() == 64);
        if (i % 4 == 3) s.finish();  // an event is lent again when it rests
    }
}

TEST_CASE("ipc: memory is ready after a stream of another GPU, without blocking a host") {
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    auto const memory = cuda_malloc(2 * mib);
    fill(memory.data(), 1, 2 * mib);
    on_device const there{1};
    load_kernels();
    ferry::buffer<cuda::device_space> const source{2 * mib, cuda::device_space{1}};
    fill(source.data(), 7, 2 * mib);
    test_stream const s;
    auto const write = [&] { must(cudaMemcpyPeerAsync(memory.data(), 0, source.data(), 1, 2 * mib, s.get())); };
    write();  // the peers have met before a gate closes
    s.finish();
    {
        on_device const here{0};
        fill(memory.data(), 1, 2 * mib);
    }
    cuda::shareable back_end;
    importer other;
    {
        auto const warm = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, {});
        REQUIRE(other.open(described(warm.description())).code == errc::ok);
    }
    gate closed{s.get()};
    write();
    auto const exported = back_end.export_memory(range(memory.data(), 0, 2 * mib), gpu, s.token());
    CHECK(exported.description().ready.size() == 64);
    CHECK_GATED(!closed.is_open());
    auto const opened = other.open(described(exported.description()));
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    CHECK(other.tell(receive).code == errc::ok);
    ::usleep(20'000);  // for what is not held to pass
    CHECK_GATED(!closed.is_open());
    closed.open();
    CHECK(is_all(other.tell(finish).bytes, 7, 2 * mib));
    s.finish();
    CHECK_GATED(!closed.was_forced());
}

TEST_CASE("ipc: a bare handle is opened as a tensor, and never beyond its allocation") {
    auto const memory = cuda_malloc(2 * mib);
    fill(memory.data(), 0, 2 * mib);
    auto const handle = cuda::handle_of_allocation(cuda::allocation_of(memory.data()));
    auto const ask = [&](std::uint64_t offset, std::int64_t count, std::int64_t step) {
        importer other;
        std::vector<std::byte> payload(sizeof handle + 3 * sizeof offset);
        std::memcpy(payload.data(), handle.data(), sizeof handle);
        std::memcpy(payload.data() + sizeof handle, &offset, sizeof offset);
        std::memcpy(payload.data() + sizeof handle + sizeof offset, &count, sizeof count);
        std::memcpy(payload.data() + sizeof handle + 2 * sizeof offset, &step, sizeof step);
        return other.tell(look, payload);
    };
    std::vector<float> values(1024);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    must(cudaMemcpy(static_cast<std::byte*>(memory.data()) + 4096, values.data(), 4096, cudaMemcpyDefault));
    auto const forwards = ask(4096, 1024, 1);
    REQUIRE_MESSAGE(forwards.code == errc::ok, text_of(forwards));
    REQUIRE(forwards.bytes.size() == 4096);
    CHECK(std::memcmp(forwards.bytes.data(), values.data(), 4096) == 0);
    auto const backwards = ask(4096 + 1023 * 4, 342, -3);
    REQUIRE_MESSAGE(backwards.code == errc::ok, text_of(backwards));
    REQUIRE(backwards.bytes.size() == 342 * sizeof(float));
    for (std::size_t i = 0; i < 342; ++i) {
        float x = 0;
        std::memcpy(&x, backwards.bytes.data() + i * sizeof x, sizeof x);
        CHECK(x == values[1023 - 3 * i]);
    }
    CHECK(ask(2 * mib - 4, 1, 1).code == errc::ok);
    CHECK(ask(2 * mib, 0, 1).code == errc::ok);
    CHECK(ask(2 * mib - 4, 2, 1).code == errc::out_of_range);
    CHECK(ask(2 * mib + 4, 1, 1).code == errc::out_of_range);
    CHECK(ask(std::uint64_t{1} << 63, 1, 1).code == errc::out_of_range);
    CHECK(ask(0, 2, -1).code == errc::out_of_range);
    CHECK(ask(0, 2, 2 * mib / 4).code == errc::out_of_range);
    CHECK(ask(0, std::int64_t{1} << 62, 1).code != errc::ok);  // its size cannot be counted
    float near = 0;
    fails(errc::device, [&] { return cuda::attach_handle(handle, 0, ferry::tensor_view{&near, {}}); }, {"cpu"});
}

TEST_CASE("ipc: memory is shared and opened whichever device is current, also by another GPU") {
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    auto const memory = cuda_malloc(2 * mib);
    fill(memory.data(), 6, 2 * mib);
    cuda::shareable back_end;
    test_stream s;
    auto const exported = [&] {
        on_device const there{1};
        return back_end.export_memory(range(memory.data(), 4096, mib), gpu, s.token());
    }();
    CHECK(exported.description().ready.size() == 64);
    importer here, other;
    for (auto* const by : {&here, &other}) {
        auto const opened = by->open(described(exported.description()), by == &here ? -1 : 1);
        REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
        CHECK(by->tell(receive).code == errc::ok);
        CHECK(is_all(by->tell(finish).bytes, 6, mib));
    }
    // The work of the other GPU is ordered before a stream here: the event belongs to this GPU.
    load_kernels();
    std::vector<std::byte> host(mib);
    pinned_for_now const while_here{host};
    REQUIRE(other.tell(hold).code == errc::ok);
    std::byte const nine[] = {std::byte{9}};
    REQUIRE(other.tell(overwrite, nine).code == errc::ok);
    auto const marked = other.tell(done);
    REQUIRE_MESSAGE(marked.bytes.size() == 64, text_of(marked));
    ferry::ipc::event_handle done_event;
    std::memcpy(done_event.data(), marked.bytes.data(), 64);
    CHECK_GATED(!is_done(done_event));
    CHECK(exported.order_after(done_event, s.token()));
    must(cudaMemcpyAsync(host.data(), static_cast<std::byte*>(memory.data()) + 4096, mib, cudaMemcpyDeviceToHost,
                         s.get()));
    CHECK_GATED(!s.is_idle());
    REQUIRE(other.tell(release).code == errc::ok);
    s.finish();
    CHECK(is_all(host, 9, mib));
}

TEST_CASE("ipc: bare handles of a mask and of data are opened as a column, and never beyond their allocations") {
    auto const mask = cuda_malloc(2 * mib), data = cuda_malloc(2 * mib);
    unsigned char const bits[] = {0b11111101, 0b00000011};
    std::vector<double> values(10);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.5 * static_cast<double>(i);
    must(cudaMemcpy(mask.data(), bits, sizeof bits, cudaMemcpyDefault));
    must(cudaMemcpy(static_cast<std::byte*>(data.data()) + 4096, values.data(), 80, cudaMemcpyDefault));
    auto const mask_handle = cuda::handle_of_allocation(cuda::allocation_of(mask.data()));
    auto const data_handle = cuda::handle_of_allocation(cuda::allocation_of(data.data()));
    importer other;
    auto const ask = [&](std::int64_t length, std::int64_t mask_bytes, std::int64_t offset, std::int64_t bytes) {
        std::vector<std::byte> payload(mask_handle.begin(), mask_handle.end());
        payload.insert(payload.end(), data_handle.begin(), data_handle.end());
        for (auto const n : {length, mask_bytes, offset, bytes}) {
            auto const* const p = reinterpret_cast<std::byte const*>(&n);
            payload.insert(payload.end(), p, p + sizeof n);
        }
        return other.tell(frame, payload);
    };
    auto const opened = ask(10, 2, 4096, 80);
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    ferry::column_buffer const buffers[] = {{bits, 2}, {values.data(), 80}}, none[] = {{}};
    ferry::column_parts const prices{.format = "g", .name = "price", .length = 10, .buffers = buffers};
    auto const expected =
        ferry::make_column({.format = "+s", .length = 10, .buffers = none, .children = {&prices, 1}}, nullptr);
    std::string text;
    for (auto const& row : support::shown(expected.view())) text += row + '\n';
    CHECK(text_of(other.tell(rows)) == text);
    CHECK(ask(0, 0, 0, 0).code == errc::ok);
    CHECK(ask(10, 2, 2 * mib - 80, 80).code == errc::ok);
    auto const refused = [&](answer const& a, errc code, char const* why) {
        CHECK(a.code == code);
        CHECK_MESSAGE(text_of(a).find(why) != std::string::npos, text_of(a));
    };
    refused(ask(10, 2, 2 * mib - 72, 80), errc::bad_descriptor, "/column/children/0/buffers/1");
    refused(ask(10, 2, 0, std::int64_t{1} << 62), errc::bad_descriptor, "/column/children/0/buffers/1");
    refused(ask(10, 1, 4096, 80), errc::bad_column, "price: validity buffer holds 1 bytes, needs 2");
    refused(ask(11, 2, 4096, 80), errc::bad_column, "price: data buffer holds 80 bytes, needs 88");
    CHECK(other.tell(rows).code == errc::ok);
    auto const left = other.usage();
    CHECK(left.opened == left.closed);
    fails(errc::device, [] { return cuda::attach_handles({.format = "n"}, {}, ferry::cpu); }, {"cpu"});
}

TEST_CASE("ipc: a bare handle opens several columns without masks, of numbers and text") {
    auto const data = cuda_malloc(2 * mib);
    std::int32_t const numbers[] = {7, 8, 9}, offsets[] = {0, 2, 2, 5};
    auto* const to = static_cast<std::byte*>(data.data());
    must(cudaMemcpy(to + 64, numbers, sizeof numbers, cudaMemcpyDefault));
    must(cudaMemcpy(to + 128, offsets, sizeof offsets, cudaMemcpyDefault));
    must(cudaMemcpy(to + 192, "abcde", 5, cudaMemcpyDefault));
    auto const handle = cuda::handle_of_allocation(cuda::allocation_of(data.data()));
    importer other;
    auto const opened = other.tell(frame_of_one, std::vector<std::byte>(handle.begin(), handle.end()));
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    ferry::column_buffer const none[] = {{}}, n[] = {{}, {numbers, 12}}, t[] = {{}, {offsets, 16}, {"abcde", 5}};
    ferry::column_parts const children[] = {{.format = "i", .name = "n", .length = 3, .buffers = n},
                                            {.format = "u", .name = "t", .length = 3, .buffers = t}};
    auto const expected =
        ferry::make_column({.format = "+s", .length = 3, .buffers = none, .children = children}, nullptr);
    std::string text;
    for (auto const& row : support::shown(expected.view())) text += row + '\n';
    CHECK(text_of(other.tell(rows)) == text);
    auto const left = other.usage();
    CHECK(left.opened == left.closed);
}
