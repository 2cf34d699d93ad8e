// The memory and the GPU of a handle: ordinals that differ between processes, virtual memory, other allocations in a
// block, and one allocation that is opened several times.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/ipc/device_uuid.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/share.hpp>
#include <gpu/importer.hpp>
#include <gpu/plain_array.hpp>
#include <gpu/world.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::errc;
using enum support::order_of_work;
namespace cuda = ferry::cuda;
namespace ipc = ferry::ipc;

constexpr std::size_t block = cuda::allocation::block;

/// As CUDA_VISIBLE_DEVICES takes it.
std::string uuid_text(std::int32_t device) {
    std::string out = "GPU-";
    auto const uuid = cuda::uuid_of(device);
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
        out += "0123456789abcdef"[uuid[i] >> 4];
        out += "0123456789abcdef"[uuid[i] & 15];
    }
    return out;
}

/// A block of a GPU, filled, and shared.
struct shared_block {
    std::int32_t device;
    ferry::buffer<cuda::device_space> memory;
    cuda::shareable<> back_end{};
    cuda::exported_allocation exported;

    shared_block(std::int32_t where, unsigned char value)
        : device{where},
          memory{block, cuda::device_space{where}},
          exported{back_end.export_memory({static_cast<std::byte*>(memory.data()), block, 0},
                                          {ferry::device_type::cuda, where}, {})} {
        on_device const there{where};
        fill(memory.data(), value, block);
    }
    [[nodiscard]] std::vector<std::byte> described() const {
        ferry::wire::descriptor d;
        d.memories.push_back(exported.description());
        d.root =
            ferry::wire::tensor{.dtype = ferry::dtype_of<std::uint8_t>, .shape = {static_cast<std::int64_t>(block)}};
        return ferry::wire::to_bytes(d);
    }
};

/// An importer that sees these devices finds the block's device by its UUID, under this ordinal.
void opens_as(shared_block const& b, std::string const& visible, std::int64_t number, unsigned char value) {
    CAPTURE(visible);
    importer other{visible.c_str()};
    auto const opened = other.open(b.described());
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    CHECK(words(other.tell(place)).at(0) == number);
    CHECK(other.tell(receive).code == errc::ok);
    auto const got = other.tell(finish).bytes;
    CHECK(got.size() == block);
    CHECK(std::ranges::all_of(got, [&](std::byte x) { return x == std::byte{value}; }));
}

/// Memory mapped by the virtual memory API.
plain_array make_virtual(std::int32_t device = 0) {
    static auto const find = [](auto*& function, char const* name) {
        cuda::detail::find_driver_function(function, name);
        return function;
    };
    CUmemAllocationProp facts{};
    facts.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    facts.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    facts.location.id = device;
    decltype(cuMemCreate)* create = nullptr;
    decltype(cuMemAddressReserve)* reserve = nullptr;
    decltype(cuMemMap)* map = nullptr;
    decltype(cuMemSetAccess)* give_access = nullptr;
    decltype(cuMemUnmap)* unmap = nullptr;
    decltype(cuMemAddressFree)* give_back = nullptr;
    decltype(cuMemRelease)* let_go_of = nullptr;
    find(create, "cuMemCreate"), find(reserve, "cuMemAddressReserve"), find(map, "cuMemMap");
    find(give_access, "cuMemSetAccess"), find(unmap, "cuMemUnmap"), find(give_back, "cuMemAddressFree");
    find(let_go_of, "cuMemRelease");
    constexpr std::size_t n = plain_array::bytes;  // a multiple of every granularity
    CUmemGenericAllocationHandle memory{};
    CUdeviceptr at = 0;
    CUmemAccessDesc access{};
    access.location = facts.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    must(cudaFree(nullptr));  // makes a context
    REQUIRE(create(&memory, n, &facts, 0) == CUDA_SUCCESS);
    REQUIRE(reserve(&at, n, 0, 0, 0) == CUDA_SUCCESS);
    REQUIRE(map(at, n, 0, memory, 0) == CUDA_SUCCESS);
    REQUIRE(give_access(at, n, &access, 1) == CUDA_SUCCESS);
    plain_array a;
    a.memory = {reinterpret_cast<std::byte*>(at), [=](std::byte*) {
                    static_cast<void>(unmap(at, n));
                    static_cast<void>(give_back(at, n));
                    static_cast<void>(let_go_of(memory));
                }};
    return a;
}

/// Copies a matrix of bytes, transposed, from the second GPU to the first one: memory that kernels there cannot access.
template <class BackEnd>
void comes_turned(void* from, BackEnd& by) {
    constexpr std::int64_t rows = 512, columns = 1024;
    std::int64_t const shape[] = {columns, rows}, across[] = {1, columns};
    std::vector<std::uint8_t> values(rows * columns), got(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
    {
        on_device const there{1};
        test_stream const s;
        must(cudaMemcpyAsync(from, values.data(), values.size(), cudaMemcpyHostToDevice, s.get()));
        s.finish();
    }
    test_stream const s;
    cuda::memory const to{gpu, values.size(), {}};
    ferry::tensor_view const dst{static_cast<std::uint8_t*>(to.data()), shape, {}, gpu},
        src{static_cast<std::uint8_t const*>(from), shape, across, {ferry::device_type::cuda, 1}};
    ferry::copy(dst, src, by, s.token());
    must(cudaMemcpyAsync(got.data(), to.data(), got.size(), cudaMemcpyDeviceToHost, s.get()));
    s.finish();
    bool is_right = true;
    for (std::size_t c = 0; c < columns; ++c)
        for (std::size_t r = 0; r < rows; ++r) is_right = is_right && got[c * rows + r] == values[r * columns + c];
    CHECK(is_right);
    fails(errc::no_peer_access,
          [&] { cuda::pack(ferry::make_copy_plan(dst, src), to.data(), from, cuda::stream_ref{s.get()}); },
          {"cuda:0", "cuda:1", "ferry::copy"});
    CHECK(left_no_error());
}

}  // namespace

TEST_CASE("two GPUs: imported and virtual memory is copied to the other GPU without a kernel") {
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    cuda::copier_options packing;
    packing.pack = cuda::pack;
    cuda::copier copier{packing};
    auto const of_one = make_virtual(1);
    comes_turned(of_one.memory.get(), copier);
    comes_turned(of_one.memory.get(), cuda::system);
    importer other{uuid_text(1).c_str()};
    auto const shared = other.tell(share, std::array{std::byte{7}});
    REQUIRE_MESSAGE(shared.code == errc::ok, text_of(shared));
    ipc::session session;
    cuda::shareable back_end;
    auto const attached = ipc::attach(ferry::wire::from_bytes(shared.bytes), {.session = &session}, back_end);
    CHECK(attached.device().id == 1);
    auto* const theirs = const_cast<void*>(attached.view().data());
    comes_turned(theirs, copier);
    comes_turned(theirs, cuda::system);
}

TEST_CASE("ipc: a GPU is found by its UUID, whatever number it has in the importer") {
    shared_block const first{0, 3};
    opens_as(first, uuid_text(0), 0, 3);
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    shared_block const second{1, 4};
    auto const both = uuid_text(1) + ',' + uuid_text(0);
    opens_as(first, both, 1, 3);
    opens_as(second, both, 0, 4);
    opens_as(second, uuid_text(1), 0, 4);
    if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) opens_as(first, "1,0", 1, 3);
    importer without{uuid_text(0).c_str()};
    auto const refused = without.open(second.described());
    CHECK(refused.code == errc::device_not_found);
    CHECK(text_of(refused).find("CUDA_VISIBLE_DEVICES") != std::string::npos);
    CHECK(without.open(first.described()).code == errc::ok);
}

TEST_CASE("ipc: virtual memory is refused with the reason, and shared by a copy where one is allowed") {
    auto a = make_virtual();
    a.shape = {64};
    a.offset = 10;
    count_up(a);
    cuda::shareable back_end;
    ipc::byte_range const range{a.memory.get(), 64, 0};
    auto const* const why = back_end.refusal(range, gpu);
    REQUIRE(why != nullptr);
    CHECK(std::strstr(why, "virtual memory") != nullptr);
    fails(errc::not_exportable, [&] { static_cast<void>(back_end.export_memory(range, gpu, {})); }, {"virtual memory"});
    fails(errc::not_exportable, [&] { static_cast<void>(ipc::share(a, {.copy = copy_policy::never}, back_end)); },
          {"virtual memory"});
    auto const shared = ipc::share(a, back_end);
    CHECK(shared.copied());
    importer other;
    REQUIRE(other.attach(text(shared)).code == errc::ok);
    auto const got = numbers(other.tell(elements));
    REQUIRE(got.size() == 64);
    CHECK(got.front() == 10);
    CHECK(got.back() == 73);
}

TEST_CASE("ipc: a process opens an allocation once, and closes it with its last user") {
    cuda::shareable back_end;
    ipc::session session;
    auto a = make_plain({64});
    count_up(a);
    auto b = a;
    b.offset = 1000;  // another slice
    auto const first = ipc::share(a, {.session = &session}, back_end);
    auto const second = ipc::share(b, {.session = &session}, back_end);
    CHECK(first.descriptor().memories[0].handle == second.descriptor().memories[0].handle);
    importer other;
    auto const base = [&](ipc::shared const& s) {
        auto const opened = other.open(text(s));  // before it lets go of the one before
        REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
        return words(opened).at(0) - static_cast<std::int64_t>(s.descriptor().memories[0].offset);
    };
    auto const there = base(first);
    CHECK(base(second) == there);
    auto const before = other.usage();
    for (int i = 0; i < 3; ++i) {
        REQUIRE(other.attach(text(first)).code == errc::ok);  // found in the session from the second time on
        CHECK(numbers(other.tell(elements)).at(63) == 63);
    }
    REQUIRE(other.attach(text(second)).code == errc::ok);
    CHECK(other.tell(let_go).code == errc::ok);
    CHECK(numbers(other.tell(elements)).at(0) == 1000 % 256);
    auto const after = other.usage();
    CHECK(after.opened - before.opened == 2);
    CHECK(after.opened == after.closed);
    REQUIRE(other.attach(text(first)).code == errc::ok);
    CHECK(numbers(other.tell(elements)).at(1) == 1);
}

TEST_CASE("ipc: an isolated share does not expose other allocations of the same 2 MiB block") {
    // Small allocations that the driver places in one block; the others hold bytes that must not be exposed.
    constexpr std::size_t small = 4096;
    std::array<std::byte, 16> secret{};
    std::vector<ferry::buffer<cuda::device_space>> all;
    for (int i = 0; i < 8; ++i) all.emplace_back(small, cuda::device_space{0});
    for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::byte>(0xA7 ^ (i * 29));
    std::vector<std::byte> secrets;
    while (secrets.size() < small) secrets.insert(secrets.end(), secret.begin(), secret.end());
    for (auto& one : all) must(cudaMemcpy(one.data(), secrets.data(), small, cudaMemcpyHostToDevice));
    fill(all[3].data(), 5, small);
    auto const block_of = [](void const* p) { return reinterpret_cast<std::uintptr_t>(p) / block; };
    if (block_of(all[3].data()) != block_of(all[4].data())) MESSAGE("the driver gave each allocation its own block");

    plain_array a;
    auto const owner = std::make_shared<ferry::buffer<cuda::device_space>>(std::move(all[3]));
    a.memory = {owner, static_cast<std::byte*>(owner->data())};
    a.shape = {small};
    auto const range = ipc::byte_range{a.memory.get(), small, 0};
    CHECK(cuda::shareable{}.refusal(range, gpu) == nullptr);
    cuda::shareable isolating{cuda::system, {.isolate = true}};
    CHECK(std::strstr(isolating.refusal(range, gpu), "2 MiB") != nullptr);
    fails(errc::not_exportable, [&] { static_cast<void>(ipc::share(a, {.copy = copy_policy::never}, isolating)); },
          {"2 MiB"});
    auto const shared = ipc::share(a, isolating);
    CHECK(shared.copied());
    auto const& m = shared.descriptor().memories[0];
    CHECK(m.allocation % block == 0);
    CHECK(m.offset == 0);
    importer other;
    auto const opened = other.open(text(shared));
    REQUIRE_MESSAGE(opened.code == errc::ok, text_of(opened));
    CHECK(words(other.tell(place)).at(1) == static_cast<std::int64_t>(m.allocation));  // nothing else is mapped
    auto const seen = other.tell(peek, as_payload({0, static_cast<std::int64_t>(m.allocation)}));
    REQUIRE_MESSAGE(seen.code == errc::ok, text_of(seen));
    REQUIRE(seen.bytes.size() == m.allocation);
    CHECK(seen.bytes[small - 1] == std::byte{5});
    // The bytes after the tensor were freed by this process: none belong to other allocations.
    CHECK(std::ranges::search(seen.bytes, secret).empty());
    CHECK(std::all_of(seen.bytes.begin() + small, seen.bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
}
