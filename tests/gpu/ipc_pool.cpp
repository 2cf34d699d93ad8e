// Memory of stream-ordered pools shared with another process by the pool's file descriptor.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/ipc.hpp>
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/unique_fd.hpp>
#include <gpu/importer.hpp>
#include <gpu/plain_array.hpp>
#include <gpu/world.hpp>
#include <support/own_shm.hpp>
#include <support/random_columns.hpp>
#include <support/split_columns.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::errc;
using enum support::order_of_work;
namespace cuda = ferry::cuda;
namespace ipc = ferry::ipc;

/// An exportable pool, and a back end that shares it. Its memory is freed on a stream that outlives it.
struct shared_pool {
    std::int32_t device = 0;
    cuda::stream on{device};
    cuda::pool pool{device, cuda::pool::sharing::posix_fd};
    ipc::unique_fd file{cuda::descriptor_of_pool(pool.get())};
    cuda::shareable<> back_end{cuda::system, {.pools = true}};
    ipc::session session{};

    ~shared_pool() {
        session.collect(support::patience);
        on.wait();
    }
    [[nodiscard]] plain_array make(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {},
                                   std::int64_t offset = 0) {
        auto a = make_plain_in(cuda::pool_space{pool, on}, std::move(shape), std::move(strides), offset);
        on.wait();  // it is there for every stream
        count_up(a);
        return a;
    }
    /// A copy of a column, with an allocation of the pool for each buffer.
    [[nodiscard]] ferry::column put(ferry::column const& c) {
        auto const fill = [this](void* to, void const* from, std::size_t bytes) {
            on_device const there{device};  // others have no access
            must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, on.get()));
            on.wait();
        };
        return split_into({ferry::device_type::cuda, device}, cuda::pool_space{pool, on}, fill).put(c);
    }
    [[nodiscard]] ipc::shared share(plain_array const& a) {
        auto shared = ipc::share(a, {.session = &session, .copy = copy_policy::never}, back_end);
        REQUIRE(!shared.copied());
        CHECK(shared.descriptor().memories[0].kind == ferry::wire::memory_kind::cuda_pool);
        return shared;
    }
};

/// Null where the machine does not support such pools.
std::unique_ptr<shared_pool> make_shared_pool(std::int32_t device = 0) try {
    return std::unique_ptr<shared_pool>{new shared_pool{device}};
} catch (ferry::error const& e) {
    MESSAGE("SKIPPED: this machine makes no exportable pools: ", shown(e.what()));
    return nullptr;
}

/// Thousands of rounds in which the importer opens the memory, makes a tensor of it and closes it.
void attach_and_close(char const* what, importer& other, std::vector<std::byte> const& described, int file,
                      int thousands) {
    auto const free_bytes = [] {
        std::size_t left = 0, total = 0;
        must(cudaMemGetInfo(&left, &total));
        return left;
    };
    auto const thousand_more = [&] {
        std::vector<std::byte> payload(8);
        std::int32_t const where[] = {-1, file};
        std::memcpy(payload.data(), where, sizeof where);
        payload.insert(payload.end(), described.begin(), described.end());
        auto const done = other.tell(attach_thousand, payload);
        REQUIRE_MESSAGE(done.code == errc::ok, text_of(done));
    };
    thousand_more();
    auto const there = other.usage();
    auto const free_then = free_bytes();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < thousands; ++i) thousand_more();
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    std::printf("soak ipc: %d attaches of %s memory, opened and closed each time, in %.1f s\n", thousands * 1000, what,
                took.count());
    auto const left = other.usage();
    CHECK(free_bytes() + (std::size_t{8} << 20) >= free_then);
    CHECK(left.files == there.files);
    CHECK(left.mappings == there.mappings);
    CHECK(left.opened == left.closed);
    CHECK(left.opened - there.opened == (file < 0 ? thousands * 1000 : 0));  // the importer counts handles alone
    REQUIRE(other.attach(described, -1, file).code == errc::ok);
    CHECK(numbers(other.tell(elements)).at(63) == 63);
}

std::vector<int> counted(int from, int n) {
    std::vector<int> out;
    for (int i = 0; i < n; ++i) out.push_back((from + i) % 256);
    return out;
}

}  // namespace

TEST_CASE("ipc pool: slices and views with strides of either sign are attached by the pool's file, on every GPU") {
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    for (auto const device : devices_to_open_on()) {
        CAPTURE(device);
        importer other;
        REQUIRE(other.passes(p->file.get()));
        for (auto const& l : arrangements()) {
            for (bool const read_only : {false, true}) {
                auto a = p->make(l.shape, l.strides, l.offset);
                a.read_only = read_only;
                bool const is_empty = l.expected.empty();
                auto const shared = is_empty ? ipc::share(a, {.session = &p->session}, p->back_end) : p->share(a);
                if (!is_empty) CHECK(other.attach(text(shared), device).code == errc::permission);
                auto const attached = other.attach(text(shared), device, 1);
                REQUIRE_MESSAGE(attached.code == errc::ok, text_of(attached));
                CHECK(numbers(attached) == std::vector<int>{read_only});
                CHECK(numbers(other.tell(elements)) == l.expected);
            }
        }
    }
    CHECK(p->session.collect(support::patience) == 0);
}

TEST_CASE("ipc pool: two allocations of a pool, one of them attached twice, stay valid until the last use ends") {
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    auto const one = p->make({64}), two = p->make({64}, {}, 100);
    auto const first = p->share(one), again = p->share(one), second = p->share(two);
    importer other;
    REQUIRE(other.passes(p->file.get()));
    auto const opened = other.open(text(first), -1, 1);
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    REQUIRE(other.tell(open_again).code == errc::ok);
    REQUIRE(other.attach(text(again), -1, 1).code == errc::ok);
    CHECK(numbers(other.tell(elements)) == counted(0, 64));
    REQUIRE(other.attach(text(second), -1, 1).code == errc::ok);
    CHECK(numbers(other.tell(elements)) == counted(100, 64));
    CHECK(other.tell(let_go).code == errc::ok);  // the other uses have it still
    CHECK(other.tell(keep_again).code == errc::ok);
    CHECK(other.tell(receive).code == errc::ok);
    CHECK(numbers(other.tell(finish)) == counted(0, 64));
    CHECK(other.tell(let_go).code == errc::ok);
    for (int round = 0; round < 50; ++round) {
        CAPTURE(round);
        REQUIRE(other.attach(text(again), -1, 1).code == errc::ok);
        REQUIRE(other.open(text(first), -1, 1).code == errc::ok);
        CHECK(numbers(other.tell(elements)) == counted(0, 64));
        CHECK(other.tell(let_go).code == errc::ok);
    }
}

TEST_CASE("ipc pool: two back ends of a process use one allocation, which stays open until both have closed it") {
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    auto const a = p->make({64});
    auto const shared = p->share(a);
    importer other;
    REQUIRE(other.passes(p->file.get()));
    for (int round = 0; round < 3; ++round) {
        CAPTURE(round);
        auto const opened = other.open(text(shared), -1, 1);
        REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
        auto const again = other.tell(open_by_other);
        REQUIRE_MESSAGE(again.code == errc::ok, text_of(again));
        CHECK(other.tell(let_go).code == errc::ok);
        CHECK(other.tell(keep_again).code == errc::ok);
        CHECK(other.tell(receive).code == errc::ok);
        CHECK(numbers(other.tell(finish)) == counted(0, 64));
        CHECK(other.tell(let_go).code == errc::ok);
    }
}

TEST_CASE("ipc pool: a process opens one allocation for two GPUs, until its last use ends") {
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    auto const a = p->make({64});
    auto const first = p->share(a), second = p->share(a);
    importer other;
    REQUIRE(other.passes(p->file.get()));
    for (auto const& [one, two] : {std::pair{-1, 1}, {1, -1}}) {
        CAPTURE(one);
        auto const opened = other.open(text(first), one, 1);
        REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
        auto const attached = other.attach(text(second), two, 1);
        REQUIRE_MESSAGE(attached.code == errc::ok, text_of(attached));
        CHECK(other.tell(copy_later).code == errc::ok);  // on the GPU of the attach
        CHECK(numbers(other.tell(finish)) == counted(0, 64));
        CHECK(other.tell(receive).code == errc::ok);
        CHECK(numbers(other.tell(finish)) == counted(0, 64));
        CHECK(other.tell(let_go).code == errc::ok);
        CHECK(other.tell(copy_later).code == errc::ok);
        CHECK(numbers(other.tell(finish)) == counted(0, 64));
        CHECK(other.tell(drop).code == errc::ok);
        static_cast<void>(other.usage());  // drops what no tensor uses
    }
}

TEST_CASE("ipc pool: memory is opened and closed during a graph capture, which stays valid") {
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    auto const a = p->make({64});
    auto const shared = p->share(a);
    importer other;
    REQUIRE(other.passes(p->file.get()));
    REQUIRE(other.open(text(shared), -1, 1).code == errc::ok);
    REQUIRE(other.tell(let_go).code == errc::ok);
    REQUIRE(other.tell(begin_capture).code == errc::ok);
    auto const again = other.open(text(shared), -1, 1);
    CHECK_MESSAGE(again.code == errc::ok, text_of(again));
    CHECK(other.tell(receive).code == errc::ok);
    CHECK(other.tell(done).bytes.size() == 64);
    auto const closed = other.tell(let_go);
    CHECK_MESSAGE(closed.code == errc::ok, text_of(closed));
    CHECK(numbers(other.tell(end_capture)) == std::vector<int>{1});
    CHECK(numbers(other.tell(finish)) == counted(0, 64));
}

TEST_CASE("ipc pool: bytes beyond the memory are refused, whatever size the descriptor states") {
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    auto const a = p->make({64});
    auto const shared = p->share(a);
    importer other;
    REQUIRE(other.passes(p->file.get()));
    auto const opened = other.open(text(shared), -1, 1);
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    auto const told = words(other.tell(place)).at(1);
    auto forged = shared.descriptor();
    forged.memories[0].allocation = std::uint64_t{1} << 40;
    forged.memories[0].offset = std::uint64_t{1} << 39;
    if (told > 0) {
        CHECK(static_cast<std::size_t>(told) >= plain_array::bytes);
        CHECK(other.open(ferry::wire::to_bytes(forged), -1, 1).code == errc::out_of_range);
        CHECK(other.attach(ferry::wire::to_bytes(forged), -1, 1).code == errc::out_of_range);
    } else {
        MESSAGE("the driver does not say how large another process's pool memory is: its exporter is believed");
    }
    CHECK(other.open(text(shared), -1, 1).code == errc::ok);  // it has survived all that
}

TEST_CASE("ipc pool: memory released by its exporter stays valid for its importers, and cannot be attached again") {
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    importer other, late;
    REQUIRE(other.passes(p->file.get()));
    REQUIRE(late.passes(p->file.get()));
    auto a = p->make({64});
    std::weak_ptr<void> const alive = a.memory;
    auto shared = p->share(a);
    a.memory.reset();
    auto const described = text(shared);
    REQUIRE(other.attach(described, -1, 1).code == errc::ok);
    shared = {};
    CHECK(late.attach(described, -1, 1).code == errc::exporter_gone);
    CHECK(p->session.collect() == 1);
    CHECK(!alive.expired());
    {
        auto const next = p->make({64}, {}, 50);  // not where the other one reads
        CHECK(numbers(other.tell(elements)) == counted(0, 64));
    }
    CHECK(p->session.collect(support::patience) == 0);
    CHECK(alive.expired());
}

TEST_CASE("ipc pool: memory of pools and of cudaMalloc is attached without /dev/shm") {
    auto const p = make_shared_pool();
    support::hidden_shm const hidden;
    if (p == nullptr || !hidden) {
        MESSAGE("SKIPPED: no exportable pools, or no mount namespace to hide /dev/shm in");
        return;
    }
    ipc::session session{{.segments = ipc::segment_kind::anonymous}};
    ipc::share_options const options{.session = &session, .copy = copy_policy::never};
    auto const one = p->make({64});
    auto two = make_plain({64}, {}, 7);
    count_up(two);
    std::vector<ipc::shared> shared;
    shared.push_back(ipc::share(one, options, p->back_end));
    shared.push_back(ipc::share(two, options, p->back_end));
    std::vector<int> const files[] = {{p->file.get(), shared[0].file()}, shared[1].files()};
    importer other;
    for (std::size_t i = 0; i < 2; ++i) {
        auto const attached = other.attach_files(text(shared[i]), -1, files[i]);
        REQUIRE_MESSAGE(attached.code == errc::ok, text_of(attached));
        CHECK(shared[i].readers() == 1);
        CHECK(numbers(other.tell(elements)) == counted(i == 0 ? 0 : 7, 64));
        CHECK(shared[i].wait_for_readers(support::patience));
    }
    shared.clear();
    static_cast<void>(other.usage());  // unmaps what no tensor uses
    CHECK(session.collect(support::patience) == 0);
}

TEST_CASE(
    "ipc pool: a table in pools, in memory of cudaMalloc and on the host needs the file of each pool and segment") {
    auto const first = make_shared_pool();
    if (first == nullptr) return;
    auto const other_pool = gpus() > 1 ? make_shared_pool(1) : nullptr;
    auto& second = other_pool != nullptr ? *other_pool : *first;
    auto kind = ipc::segment_kind::named;
    SUBCASE("segments with names") {}
    SUBCASE("anonymous segments") { kind = ipc::segment_kind::anonymous; }
    bool const is_anonymous = kind == ipc::segment_kind::anonymous;
    ipc::session session{{.segments = kind}};
    column_maker maker{79};
    std::vector<ferry::column> const parts{maker.make("u", 20, 2), maker.make("i", 20, 2), maker.make("g", 20, 2),
                                           maker.make("i", 20, 2)};
    std::string expected;
    for (auto const& row : shown(ferry::make_struct(parts))) expected += row + '\n';
    auto of_malloc = split_into(gpu, cuda::device_space{0}, [](void* to, void const* from, std::size_t bytes) {
        must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    });
    std::vector<ferry::column> const there{first->put(parts[0]), second.put(parts[1]), of_malloc.put(parts[2]),
                                           ferry::compact(parts[3], ipc::shared_space{session})};
    auto const s =
        ipc::share(ferry::make_struct(there, "t"), {.session = &session, .copy = copy_policy::never}, first->back_end);
    CHECK_FALSE(s.copied());

    // The files, and those without which the table cannot be attached.
    auto const& memories = s.descriptor().memories;
    auto const n = memories.size();
    std::vector<int> files;
    std::vector<bool> is_needed;
    for (auto const& m : memories) {
        is_needed.push_back(m.kind == ferry::wire::memory_kind::cuda_pool);
        auto const& its = m.device == cuda::uuid_of(second.device) ? second : *first;
        files.push_back(is_needed.back() ? its.file.get() : -1);
    }
    CHECK(std::ranges::count(is_needed, true) > 3);
    CHECK(std::ranges::count(is_needed, false) > 2);
    for (std::size_t i = 0; is_anonymous && i < n; ++i) {
        auto const same = std::ranges::find(memories, memories[i].name, &ferry::wire::memory::name);
        files.push_back(s.files()[i]);
        is_needed.push_back(same - memories.begin() == static_cast<std::ptrdiff_t>(i));
    }

    importer other;
    auto const attach_with = [&](std::vector<int> const& with, bool is_complete) {
        auto const attached = other.attach_columns(text(s), -1, with);
        CHECK_MESSAGE(attached.code == (is_complete ? errc::ok : errc::permission), text_of(attached));
        if (is_complete) CHECK(text_of(other.tell(rows)) == expected);
        else
            for (auto const* const part : {" buffer: ", "file descriptor"})
                CHECK_MESSAGE(text_of(attached).find(part) != std::string::npos, text_of(attached));
        static_cast<void>(other.usage());  // unmaps what no column uses
    };
    for (std::size_t i = 0; i < files.size(); ++i) {
        CAPTURE(i);
        auto without = files;
        without[i] = -1;
        attach_with(without, !is_needed[i]);
        attach_with(
            {files.begin(), files.begin() + static_cast<std::ptrdiff_t>(i)},
            std::find(is_needed.begin() + static_cast<std::ptrdiff_t>(i), is_needed.end(), true) == is_needed.end());
    }
    attach_with(files, true);
    std::ranges::replace(files, -1, first->file.get());  // the file of another memory is ignored
    attach_with(files, true);
    for (std::int32_t device = 0; device < gpus(); ++device) {  // memory of pools stays where it is
        auto const on = [](std::int32_t id) { return "cuda:" + std::to_string(id) + ' '; };
        auto const attached = other.attach_columns(text(s), device, files);
        REQUIRE_MESSAGE(attached.code == errc::ok, text_of(attached));
        CHECK(text_of(attached) == on(0) + on(second.device) + on(device) + "cpu:0 ");
        CHECK(text_of(other.tell(rows)) == expected);
        static_cast<void>(other.usage());
    }
    auto const left = other.usage();
    CHECK(left.opened == left.closed);
}

TEST_CASE("ipc pool: memory of a pool with fabric handles only is refused or copied") {
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypeFabric;
    props.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t fabric = nullptr;
    void* made = nullptr;
    test_stream const s;
    if (cudaMemPoolCreate(&fabric, &props) != cudaSuccess ||
        cudaMallocFromPoolAsync(&made, plain_array::bytes, fabric, s.get()) != cudaSuccess) {
        MESSAGE("SKIPPED: this machine makes no pools with fabric handles");
        if (fabric != nullptr) static_cast<void>(cudaMemPoolDestroy(fabric));
        static_cast<void>(cudaGetLastError());
        return;
    }
    s.finish();
    {
        plain_array a;
        a.memory = {static_cast<std::byte*>(made), [&s](void* q) { static_cast<void>(cudaFreeAsync(q, s.get())); }};
        a.shape = {64};
        count_up(a);
        cuda::shareable back_end{cuda::system, {.pools = true}};
        fails(errc::not_exportable, [&] { static_cast<void>(ipc::share(a, {.copy = copy_policy::never}, back_end)); },
              {"cudaMemHandleTypePosixFileDescriptor"});
        fails(errc::not_exportable, [&] { ::close(cuda::descriptor_of_pool(fabric)); }, {"posix_fd"});
        auto const shared = ipc::share(a, back_end);
        CHECK(shared.copied());
        importer other;
        REQUIRE(other.attach(text(shared)).code == errc::ok);
        CHECK(numbers(other.tell(elements)) == counted(0, 64));
    }
    s.finish();
    CHECK(cudaMemPoolDestroy(fabric) == cudaSuccess);
}

TEST_CASE("soak: a hundred thousand attaches leave no file, mapping, thread or memory behind" * doctest::skip()) {
    importer other;
    {
        cuda::shareable back_end;
        auto const a = make_plain({64});
        count_up(a);
        auto const shared = ipc::share(a, {.copy = copy_policy::never}, back_end);
        attach_and_close("cudaMalloc's", other, text(shared), -1, 50);
    }
    auto const p = make_shared_pool();
    if (p == nullptr) return;
    auto const a = p->make({64});
    auto const shared = p->share(a);
    REQUIRE(other.passes(p->file.get()));
    attach_and_close("a pool's", other, text(shared), 1, 50);
}

TEST_CASE("ipc pool: a topic without a name sends its file and that of the pool once, and its frames follow") {
    auto const made = make_shared_pool();
    if (made == nullptr) return;
    auto& p = *made;
    std::vector<ipc::shared> two;
    for (int i = 0; i < 2; ++i) two.push_back(ipc::share(p.make({65536}), {.session = &p.session}, p.back_end));
    ipc::publisher camera{"", std::move(two)};
    importer other;
    REQUIRE(other.passes(camera.files()[0]));
    REQUIRE(other.passes(p.file.get()));
    REQUIRE(other.tell(follow).code == errc::ok);
    for (int n = 1; n <= 3; ++n) {
        auto const k = camera.begin(support::patience, p.on);
        REQUIRE(k);
        must(cudaMemsetAsync(camera[*k].view().writable_data(), n, 65536, p.on.get()));
        p.on.wait();
        camera.publish(*k);
        auto const frame = other.tell(next_frame);
        REQUIRE_MESSAGE(frame.code == errc::ok, text_of(frame));
        CHECK(words(frame) == std::vector<std::int64_t>{n});
        REQUIRE(other.tell(copy_later).code == errc::ok);
        CHECK(numbers(other.tell(finish)) == std::vector<int>(65536, n));
        REQUIRE(other.tell(drop).code == errc::ok);
    }
    static_cast<void>(other.usage());  // which unmaps it
}
