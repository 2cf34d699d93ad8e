// The pack kernels on the device, compared with copies by the host: as PTX and compiled in.
#include <ferry/cuda/pack.cuh>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/host_copy.hpp>

#include <doctest/doctest.h>

#include <gpu/support/random_layout.hpp>
#include <gpu/support/random_pieces.hpp>
#include <support/patience.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace {

using device_buffer = ferry::buffer<ferry::cuda::device_space>;
using packer = void (*)(ferry::copy_plan const&, void*, void const*, ferry::cuda::stream_ref);

using pieces_packer = void (*)(std::span<ferry::cuda::piece const>, ferry::cuda::stream_ref);

struct by_ptx {
    static constexpr packer pack = ferry::cuda::pack;
    static constexpr pieces_packer pack_pieces = ferry::cuda::pack_pieces;
};
struct compiled {
    static constexpr packer pack = ferry::cuda::pack_compiled;
    static constexpr pieces_packer pack_pieces = ferry::cuda::pack_pieces_compiled;
};

std::byte* bytes_of(device_buffer const& b) { return static_cast<std::byte*>(b.data()); }

void to_device(void* dst, void const* src, std::size_t n, ferry::cuda::stream const& s) {
    ferry::cuda::check(cudaMemcpyAsync(dst, src, n, cudaMemcpyHostToDevice, s.get()), "cudaMemcpyAsync");
}
void to_host(void* dst, void const* src, std::size_t n, ferry::cuda::stream const& s) {
    ferry::cuda::check(cudaMemcpyAsync(dst, src, n, cudaMemcpyDeviceToHost, s.get()), "cudaMemcpyAsync");
    s.wait();
}

long layouts_wanted() {
    char const* const asked = std::getenv("FERRY_RANDOM_LAYOUTS");
    return asked != nullptr ? std::atol(asked) : 4000;
}

/// A copy between fresh device buffers of exactly the layouts' sizes, guards around the destination.
template <class Packer>
void check_pair(support::layout const& to, support::layout const& from, ferry::data_type type,
                ferry::cuda::stream const& s) {
    constexpr std::int64_t guard = 256;
    auto const size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    std::vector<std::uint8_t> dst(size(guard + to.before(type) + to.after(type) + guard)),
        src(size(from.before(type) + from.after(type)));
    support::layouts random{static_cast<std::uint64_t>(dst.size())};
    random.fill(dst);
    random.fill(src);
    auto expected = dst;
    auto const dst_first = guard + to.before(type), src_first = from.before(type);
    auto const plan = ferry::make_copy_plan(to.at(expected.data() + dst_first, type, ferry::cpu),
                                            from.at(src.data() + src_first, type, ferry::cpu));
    ferry::copy_on_host(plan, expected.data() + dst_first, src.data() + src_first);
    device_buffer const far_dst{dst.size()}, far_src{src.size()};
    to_device(far_dst.data(), dst.data(), dst.size(), s);
    to_device(far_src.data(), src.data(), src.size(), s);
    Packer::pack(plan, bytes_of(far_dst) + dst_first, bytes_of(far_src) + src_first, s);
    to_host(dst.data(), far_dst.data(), dst.size(), s);
    CHECK_MESSAGE(dst == expected, to.text(), " from ", from.text());
}

__host__ __device__ std::uint8_t value_at(std::int64_t i) {
    return static_cast<std::uint8_t>((static_cast<std::uint64_t>(i) * 2654435761u >> 13) % 251);
}

__global__ void fill_numbered(std::uint8_t* p, std::int64_t count) {
    for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
         i += std::int64_t{blockDim.x} * gridDim.x)
        p[i] = value_at(i);
}

/// Number of bytes that differ from those at `first`.
__global__ void count_other(std::uint8_t const* p, std::int64_t first, std::int64_t count, unsigned long long* others) {
    for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
         i += std::int64_t{blockDim.x} * gridDim.x)
        if (p[i] != value_at(first + i)) atomicAdd(others, 1ull);
}

__global__ void fill_every_other(std::uint8_t* p, std::int64_t count) {
    for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
         i += std::int64_t{blockDim.x} * gridDim.x) {
        p[2 * i] = value_at(i);
        p[2 * i + 1] = 0xff;
    }
}

}  // namespace

TEST_CASE_TEMPLATE(
    "R19, R26–R29, R31: random layouts on the device are copied as the host copies them, and nothing else is written",
    Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    constexpr std::size_t room = std::size_t{64} << 20;
    device_buffer const far_dst{room}, far_src{room};
    long const count = layouts_wanted();
    for (long seed = 0; seed < count; ++seed) {
        support::random_copy c{static_cast<std::uint64_t>(seed) + 1000000};
        if (c.dst.size() > room || c.src.size() > room) continue;
        auto const plan = c.plan();
        auto expected = c.dst;
        ferry::copy_on_host(plan, expected.data() + c.dst_first, c.src.data() + c.src_first);
        to_device(far_dst.data(), c.dst.data(), c.dst.size(), s);
        to_device(far_src.data(), c.src.data(), c.src.size(), s);
        Packer::pack(plan, bytes_of(far_dst) + c.dst_first, bytes_of(far_src) + c.src_first, s);
        to_host(c.dst.data(), far_dst.data(), c.dst.size(), s);
        if (c.dst != expected) FAIL_CHECK("seed ", seed + 1000000, ": ", c.text());
    }
}

TEST_CASE_TEMPLATE("a transpose of any shape and element is exact", Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    for (int const bits : {8, 16, 32, 64, 128}) {
        ferry::data_type const type{ferry::type_code::uint, static_cast<std::uint8_t>(bits == 128 ? 64 : bits),
                                    static_cast<std::uint16_t>(bits == 128 ? 2 : 1)};
        for (auto const& [rows, columns] : {std::pair{1ll, 1ll},
                                            {8ll, 8ll},
                                            {31ll, 33ll},
                                            {32ll, 32ll},
                                            {64ll, 64ll},
                                            {65ll, 63ll},
                                            {128ll, 4ll},
                                            {3ll, 1000ll},
                                            {100ll, 1028ll},
                                            {1000ll, 1001ll}}) {
            std::int64_t const r = rows, c = columns;
            check_pair<Packer>(support::compact({r, c}), {{r, c}, {1, r}}, type, s);
            check_pair<Packer>(support::compact({3, r, c}), {{3, r, c}, {r * c, 1, r}}, type, s);
            check_pair<Packer>({{r, c}, {c + 3, 1}}, {{r, c}, {1, r + 5}}, type, s);
            check_pair<Packer>(support::compact({r, c}), {{r, c}, {-1, -r}}, type, s);
            check_pair<Packer>(support::compact({r, c, 3}), {{r, c, 3}, {1, r, r * c}}, type, s);
        }
    }
}

TEST_CASE_TEMPLATE("4096 × 4096 transposed", Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    for (std::uint8_t const bits : {8, 16, 32})
        check_pair<Packer>(support::compact({4096, 4096}), {{4096, 4096}, {1, 4096}}, {ferry::type_code::uint, bits},
                           s);
}

TEST_CASE_TEMPLATE("R19: bits that interleave in the destination", Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    ferry::data_type const four{ferry::type_code::uint, 4};
    check_pair<Packer>({{2, 3, 5}, {3, 2, 24}}, support::compact({2, 3, 5}), four, s);
    check_pair<Packer>({{1000, 7}, {7, -1}}, {{1000, 7}, {1, 1000}}, four, s);
}

TEST_CASE_TEMPLATE("R28, R29: broadcast and backwards sources", Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    ferry::data_type const word{ferry::type_code::uint, 32};
    check_pair<Packer>(support::compact({300, 200}), {{300, 200}, {0, 1}}, word, s);
    check_pair<Packer>(support::compact({300, 200}), {{300, 200}, {1, 0}}, word, s);
    check_pair<Packer>(support::compact({300, 200}), {{300, 200}, {0, 0}}, word, s);
    check_pair<Packer>(support::compact({300, 200}), {{300, 200}, {-200, -1}}, word, s);
    check_pair<Packer>(support::compact({300, 200}), {{300, 200}, {2, 1}}, word, s);
}

TEST_CASE_TEMPLATE("a reach beyond 4 GiB is addressed with 64 bits [large]", Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    std::size_t free = 0, total = 0;
    ferry::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    constexpr std::int64_t pitch = (std::int64_t{1} << 30) + 64, rows = 10, columns = 1000;
    constexpr auto reach = static_cast<std::size_t>((rows - 1) * pitch + columns * 4);
    if (free < 2 * reach) {
        MESSAGE("skipped: needs ", 2 * (reach >> 20), " MiB of device memory, and ", free >> 20, " are free");
        return;
    }
    device_buffer const far_src{reach}, far_dst{reach};
    ferry::cuda::check(cudaMemsetAsync(far_dst.data(), 0x5a, reach, s.get()), "cudaMemsetAsync");
    std::vector<std::uint32_t> row(columns), got(columns), turned(rows * columns);
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c)
            row[static_cast<std::size_t>(c)] = static_cast<std::uint32_t>(r * 1000003 + c);
        to_device(bytes_of(far_src) + r * pitch, row.data(), row.size() * 4, s);
        s.wait();
    }
    ferry::data_type const word{ferry::type_code::uint, 32};
    std::int64_t const shape[] = {columns, rows}, far[] = {1, pitch / 4}, back[] = {1, pitch / 4};
    ferry::device const here{ferry::device_type::cuda, 0};
    // Into rows as far apart, read from the last one backwards.
    std::int64_t const backwards[] = {1, -(pitch / 4)};
    Packer::pack(ferry::make_copy_plan({far_dst.data(), word, shape, back, here},
                                       {bytes_of(far_src) + (rows - 1) * pitch, word, shape, backwards, here}),
                 far_dst.data(), bytes_of(far_src) + (rows - 1) * pitch, s);
    for (std::int64_t r = 0; r < rows; ++r) {
        to_host(got.data(), bytes_of(far_dst) + r * pitch, got.size() * 4, s);
        for (std::int64_t c = 0; c < columns; ++c)
            if (got[static_cast<std::size_t>(c)] != static_cast<std::uint32_t>((rows - 1 - r) * 1000003 + c)) {
                FAIL("row ", r, ", column ", c);
            }
    }
    std::uint32_t guard = 0;
    to_host(&guard, bytes_of(far_dst) + columns * 4, 4, s);
    CHECK(guard == 0x5a5a5a5a);
    // And gathered into one compact matrix.
    Packer::pack(
        ferry::make_copy_plan({far_dst.data(), word, shape, {}, here}, {far_src.data(), word, shape, far, here}),
        far_dst.data(), far_src.data(), s);
    to_host(turned.data(), far_dst.data(), turned.size() * 4, s);
    for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t r = 0; r < rows; ++r)
            if (turned[static_cast<std::size_t>(c * rows + r)] != static_cast<std::uint32_t>(r * 1000003 + c))
                FAIL("gathered row ", r, ", column ", c);
}

TEST_CASE_TEMPLATE("more words than 31 bits count are copied [large]", Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    constexpr std::int64_t count = (std::int64_t{1} << 31) + 12345;
    std::size_t free = 0, total = 0;
    ferry::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (free < static_cast<std::size_t>(3 * count) + (std::size_t{1} << 30)) {
        MESSAGE("skipped: needs ", (3 * count) >> 20, " MiB of device memory");
        return;
    }
    device_buffer const src{static_cast<std::size_t>(2 * count)}, dst{static_cast<std::size_t>(count)};
    fill_every_other<<<4096, 256, 0, s.get()>>>(static_cast<std::uint8_t*>(src.data()), count);
    ferry::cuda::check(cudaGetLastError(), "fill_every_other");
    ferry::cuda::check(cudaMemsetAsync(dst.data(), 0, static_cast<std::size_t>(count), s.get()), "cudaMemsetAsync");
    std::int64_t const shape[] = {count}, every_other[] = {2};
    ferry::device const here{ferry::device_type::cuda, 0};
    ferry::data_type const byte{ferry::type_code::uint, 8};
    Packer::pack(
        ferry::make_copy_plan({dst.data(), byte, shape, {}, here}, {src.data(), byte, shape, every_other, here}),
        dst.data(), src.data(), s);
    std::vector<std::uint8_t> got(static_cast<std::size_t>(count));
    to_host(got.data(), dst.data(), got.size(), s);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) wrong += got[static_cast<std::size_t>(i)] != value_at(i);
    CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("scattered pieces of device and pinned memory are copied, and nothing else is written", Packer,
                   by_ptx, compiled) {
    ferry::cuda::stream const s;
    for (std::size_t const count : {std::size_t{1}, std::size_t{40}, std::size_t{1024}, std::size_t{3000}})
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            CAPTURE(seed);
            CAPTURE(count);
            support::random_pieces c{seed, count};
            device_buffer const far_src{c.src.size()}, far_dst{c.dst.size()};
            ferry::buffer<ferry::cuda::pinned_space> const near_src{c.src.size()}, near_dst{c.dst.size()};
            to_device(far_src.data(), c.src.data(), c.src.size(), s);
            std::memcpy(near_src.data(), c.src.data(), c.src.size());
            std::vector<std::uint8_t> got(c.dst.size());
            for (void const* const from : {far_src.data(), near_src.data()})
                for (void* const to : {far_dst.data(), near_dst.data()}) {
                    ferry::cuda::check(cudaMemcpyAsync(to, c.dst.data(), c.dst.size(), cudaMemcpyDefault, s.get()),
                                       "cudaMemcpyAsync");
                    Packer::pack_pieces(c.at(to, from), s);
                    ferry::cuda::check(cudaMemcpyAsync(got.data(), to, got.size(), cudaMemcpyDefault, s.get()),
                                       "cudaMemcpyAsync");
                    s.wait();
                    CHECK(got == c.expected);
                }
        }
    Packer::pack_pieces({}, s);
    ferry::cuda::piece const nothing[] = {{nullptr, nullptr, 0}};
    Packer::pack_pieces(std::span{nothing}, s);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE_TEMPLATE("pieces of gigabytes and of bytes in one call [large]", Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    constexpr std::size_t large = (std::size_t{5} << 30) + 3, all = large + 64, small_to = large + 8, small_from = 5;
    device_buffer const src{all}, dst{all}, wrong{sizeof(unsigned long long)};
    fill_numbered<<<512, 256, 0, s.get()>>>(static_cast<std::uint8_t*>(src.data()), all);
    ferry::cuda::check(cudaGetLastError(), "fill_numbered");
    ferry::cuda::check(cudaMemsetAsync(dst.data(), 0xff, all, s.get()), "cudaMemsetAsync");
    ferry::cuda::check(cudaMemsetAsync(wrong.data(), 0, wrong.size(), s.get()), "cudaMemsetAsync");
    ferry::cuda::piece const pieces[] = {{bytes_of(dst) + small_to, bytes_of(src) + small_from, 7},
                                         {dst.data(), src.data(), large}};
    Packer::pack_pieces(std::span{pieces}, s);
    auto* const count = static_cast<unsigned long long*>(wrong.data());
    auto const* const got = static_cast<std::uint8_t const*>(dst.data());
    count_other<<<512, 256, 0, s.get()>>>(got, 0, large, count);
    count_other<<<1, 32, 0, s.get()>>>(got + small_to, small_from, 7, count);
    ferry::cuda::check(cudaGetLastError(), "count_other");
    unsigned long long others = 0;
    std::uint8_t around[64];
    to_host(&others, wrong.data(), sizeof others, s);
    to_host(around, got + large, sizeof around, s);
    CHECK(others == 0);
    for (std::size_t i = 0; i < sizeof around; ++i) CHECK((around[i] == 0xff) == (i < 8 || i >= 15));
}

TEST_CASE("R44: a null stream is refused, and a failed launch leaves no error pending") {
    std::int64_t const shape[] = {2, 2}, turned[] = {1, 2};
    int a[4] = {}, b[4] = {};
    auto const plan = ferry::make_copy_plan(ferry::tensor_view{a, shape}, ferry::tensor_view{b, shape, turned});
    CHECK_THROWS_AS(ferry::cuda::pack(plan, a, b, cudaStream_t{}), ferry::error);
    CHECK_THROWS_AS(ferry::cuda::pack_pieces({}, cudaStream_t{}), ferry::error);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE_TEMPLATE("a pack runs on the given stream, after the work queued there, and does not block",
                   Packer, by_ptx, compiled) {
    ferry::cuda::stream const s;
    constexpr std::int64_t n = 1024;
    device_buffer const src{n * n * 4}, dst{n * n * 4};
    std::int64_t const shape[] = {n, n}, turned[] = {1, n};
    ferry::device const here{ferry::device_type::cuda, 0};
    auto* const words = static_cast<std::uint32_t*>(src.data());
    ferry::tensor_view const to{static_cast<std::uint32_t*>(dst.data()), shape, {}, here},
        from{words, shape, turned, here};
    auto const plan = ferry::make_copy_plan(to, from);
    Packer::pack(plan, dst.data(), src.data(), s);  // loads what has to be loaded
    s.wait();
    ferry::cuda::check(cudaMemsetAsync(src.data(), 0, n * n * 4, s.get()), "cudaMemsetAsync");
    s.wait();
    // A host function blocks the stream until the pack call has returned; if the call blocked, the function would time
    // out.
    struct gate {
        std::atomic<bool> open{false}, late{false};
    } g;
    auto const hold = [](void* p) {
        auto const until = std::chrono::steady_clock::now() + support::patience;
        auto& held = *static_cast<gate*>(p);
        while (!held.open.load() && !held.late.load()) held.late = std::chrono::steady_clock::now() > until;
    };
    ferry::cuda::check(cudaLaunchHostFunc(s.get(), hold, &g), "cudaLaunchHostFunc");
    ferry::cuda::check(cudaMemsetAsync(src.data(), 0x11, n * n * 4, s.get()), "cudaMemsetAsync");
    Packer::pack(plan, dst.data(), src.data(), s);
    CHECK(cudaStreamQuery(s.get()) == cudaErrorNotReady);
    static_cast<void>(cudaGetLastError());
    g.open = true;
    std::vector<std::uint32_t> got(n * n);
    to_host(got.data(), dst.data(), got.size() * 4, s);
    CHECK(!g.late);
    CHECK(std::count(got.begin(), got.end(), 0x11111111u) == n * n);
}
