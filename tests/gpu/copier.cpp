// The copier on a CUDA device: compares every byte, between all kinds of memory, with a copy by the host.
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/reaper.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace {

using namespace support;
namespace cuda = ferry::cuda;
using bytes = std::vector<unsigned char>;

constexpr std::size_t mib = std::size_t{1} << 20;

/// Under a sanitizer: no more than a few MiB at a time.
bool is_short() { return std::getenv("FERRY_SHORT") != nullptr; }

bytes numbered(std::size_t n, unsigned seed = 1) {
    bytes v(n + 8);
    std::uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
    for (std::size_t i = 0; i < n; i += 8) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        std::uint64_t const y = x ^ (x >> 29);
        std::memcpy(v.data() + i, &y, 8);
    }
    v.resize(n);
    return v;
}

/// Memory of any kind with the bytes of `content`.
cuda::memory filled(ferry::device where, bytes const& content) {
    cuda::memory m{where, content.size(), {}};
    if (content.empty()) return m;
    test_stream const s;
    must(cudaMemcpyAsync(m.data(), content.data(), content.size(), cudaMemcpyDefault, s.get()));
    s.finish();
    return m;
}
bytes content_of(void const* p, std::size_t n) {
    bytes v(n);
    if (n == 0) return v;
    test_stream const s;
    must(cudaMemcpyAsync(v.data(), p, n, cudaMemcpyDefault, s.get()));
    s.finish();
    return v;
}

ferry::tensor_view flat(void* p, std::int64_t const& n, ferry::device where) {
    return {p, ferry::data_type{ferry::type_code::uint, 8}, ferry::shape_view{&n, 1}, {}, where};
}

cuda::copier_options with_pack() {
    cuda::copier_options o;
    o.pack = cuda::pack;
    return o;
}

/// Copies by the copier and by the host, and compares all memory, including the bytes between the elements.
struct layout {
    char const* name;
    ferry::data_type type;
    std::vector<std::int64_t> shape, dst_strides, src_strides;
    std::int64_t dst_first, src_first;  ///< bytes before the first element
    std::size_t dst_bytes, src_bytes;
};

void check_layout(layout const& l, ferry::device to, ferry::device from, cuda::copier& copier, ferry::stream_token on) {
    CAPTURE(l.name);
    CAPTURE(static_cast<int>(to.type));
    CAPTURE(static_cast<int>(from.type));
    auto const source = numbered(l.src_bytes);
    bytes want(l.dst_bytes, poison);
    auto const src = filled(from, source);
    auto const dst = filled(to, want);
    auto const view = [&](void const* p, std::int64_t first, std::vector<std::int64_t> const& strides,
                          ferry::device where) {
        return ferry::tensor_view{const_cast<unsigned char*>(static_cast<unsigned char const*>(p)) + first, l.type,
                                  l.shape, strides.empty() ? ferry::strides_view{} : ferry::strides_view{strides},
                                  where};
    };
    ferry::copy(view(want.data(), l.dst_first, l.dst_strides, ferry::cpu),
                view(source.data(), l.src_first, l.src_strides, ferry::cpu));
    ferry::copy(view(dst.data(), l.dst_first, l.dst_strides, to), view(src.data(), l.src_first, l.src_strides, from),
                copier, on);
    auto const got = content_of(dst.data(), l.dst_bytes);
    bool const same = got == want;
    CHECK(same);
    if (!same) {
        auto const at =
            static_cast<std::size_t>(std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin());
        MESSAGE("the first wrong byte is ", at);
    }
    CHECK(left_no_error());
}

std::vector<layout> layouts() {
    constexpr ferry::data_type f32{ferry::type_code::float_, 32}, u8{ferry::type_code::uint, 8},
        i4{ferry::type_code::int_, 4};
    return {
        {"transposed", f32, {300, 500}, {}, {1, 300}, 0, 0, 600'000, 600'000},
        {"transposed, large", f32, {3000, 5000}, {}, {1, 3000}, 0, 0, 60'000'000, 60'000'000},
        {"transposed into", f32, {300, 500}, {1, 300}, {}, 0, 0, 600'000, 600'000},
        {"permuted", f32, {20, 30, 40}, {}, {1, 800, 20}, 0, 0, 96'000, 96'000},
        {"columns", f32, {5000, 3}, {}, {64, 1}, 0, 16, 60'000, 5000 * 256},
        {"wide rows", u8, {100, 5000}, {}, {8192, 1}, 0, 3, 500'000, 100 * 8192},
        {"wide rows, large", u8, {3000, 5000}, {}, {8192, 1}, 0, 3, 15'000'000, 3000 * 8192},
        {"into columns", f32, {5000, 3}, {64, 1}, {}, 8, 0, 5000 * 256, 60'000},
        {"into wide rows, large", u8, {3000, 5000}, {8192, 1}, {}, 5, 0, 3000 * 8192, 15'000'000},
        {"backwards", f32, {10'000}, {}, {-1}, 0, 39'996, 40'000, 40'000},
        {"backwards rows", u8, {100, 4096}, {}, {-4096, 1}, 0, 99 * 4096, 409'600, 409'600},
        {"scattered rows", u8, {50, 4, 4096}, {}, {-40'960, 8192, 1}, 0, 49 * 40'960, 50 * 4 * 4096, 50 * 40'960},
        {"repeated", f32, {200, 300}, {}, {0, 1}, 0, 0, 240'000, 1200},
        {"4 bits", i4, {10'001}, {}, {}, 0, 0, 5001, 5001},
        {"4 bits, transposed", i4, {100, 200}, {}, {1, 100}, 0, 0, 10'000, 10'000},
        {"4 bits, backwards", i4, {9999}, {}, {-1}, 0, 4999, 5000, 5000},
        {"one element", f32, {1}, {}, {}, 0, 4, 4, 8},
        {"nothing", f32, {0, 5}, {}, {}, 0, 0, 4, 4},
    };
}

}  // namespace

TEST_CASE("copier: copies blocks of any size between all kinds of memory, populated and not") {
    cuda::copier copier;
    test_stream const s;
    for (std::size_t const n :
         {std::size_t{0}, std::size_t{1}, std::size_t{4096}, mib - 1, mib, mib + 1, 3 * mib, 16 * mib, 300 * mib + 3}) {
        if (is_short() && n > 16 * mib) continue;
        CAPTURE(n);
        auto const source = numbered(n);
        auto const count = static_cast<std::int64_t>(n);
        auto const on_gpu = filled(gpu, source);
        for (auto const on : {s.token(), ferry::stream_token{}, ferry::stream_token::cuda_legacy_default(),
                              ferry::stream_token::cuda_per_thread_default()}) {
            if (n > 16 * mib && on != s.token()) continue;
            auto const matches = [&](void const* p) { return n == 0 || std::memcmp(p, source.data(), n) == 0; };
            auto const fetch = [&](void* to, ferry::device where) {
                ferry::copy(flat(to, count, where), flat(on_gpu.data(), count, gpu), copier, on);
            };
            bytes touched(n, poison);
            fetch(touched.data(), ferry::cpu);
            CHECK(matches(touched.data()));
            auto const fresh = copier.allocate(ferry::cpu, n, {});
            fetch(fresh.data(), ferry::cpu);
            CHECK(matches(fresh.data()));
            for (auto const where : {pinned, managed}) {
                auto const m = copier.allocate(where, n, on);
                fetch(m.data(), where);
                CHECK(matches(m.data()));
            }
            auto const said_cpu = filled(pinned, bytes(n, poison));  // as PyTorch says of pinned memory (R38)
            fetch(said_cpu.data(), ferry::cpu);
            CHECK(matches(said_cpu.data()));
            for (auto const where : {ferry::cpu, pinned, managed, gpu}) {
                auto const from = filled(where, source);
                cuda::memory const to{gpu, n, {}};
                ferry::copy(flat(to.data(), count, gpu), flat(from.data(), count, where), copier, on);
                CHECK(content_of(to.data(), n) == source);
            }
        }
    }
    CHECK(left_no_error());
    auto const [all, free] = copier.pinned();
    CHECK(all == free);
    CHECK(all <= 64 * mib);
}

TEST_CASE("copier: a lane writes every byte of new pages, and none around them") {
    auto options = with_pack();
    options.lanes = 1;
    options.slab_bytes = 8 * mib;
    cuda::copier copier{options};
    test_stream const s;
    constexpr std::int64_t rows = 4099, columns = 8191, n = rows * columns;
    auto const source = numbered(n);
    auto const on_gpu = filled(gpu, source);
    for (std::size_t const before : {std::size_t{0}, std::size_t{100}, 2 * mib - 1})
        for (bool const transposed : {false, true}) {
            CAPTURE(before);
            CAPTURE(transposed);
            cuda::fresh_host_space const space;
            std::size_t const whole = before + n + 5000;
            auto* const p = static_cast<unsigned char*>(space.allocate(whole));
            std::int64_t const shape[] = {columns, rows}, strides[] = {1, columns};
            ferry::data_type const byte{ferry::type_code::uint, 8};
            auto const from =
                transposed ? ferry::tensor_view{on_gpu.data(), byte, shape, strides, gpu} : flat(on_gpu.data(), n, gpu);
            auto const to = transposed ? ferry::tensor_view{p + before, byte, shape, {}, ferry::cpu}
                                       : flat(p + before, n, ferry::cpu);
            ferry::copy(to, from, copier, s.token());
            std::size_t wrong = 0;
            for (std::int64_t c = 0; transposed && c < columns; ++c)
                for (std::int64_t r = 0; r < rows; ++r)
                    wrong += p[before + static_cast<std::size_t>(c * rows + r)] !=
                             source[static_cast<std::size_t>(r * columns + c)];
            if (!transposed) wrong = std::memcmp(p + before, source.data(), n) != 0;
            for (std::size_t i = 0; i < whole; ++i) wrong += (i < before || i >= before + n) && p[i] != 0;
            CHECK(wrong == 0);
            space.deallocate(p, whole);
        }
    CHECK(copier.started_lanes() == 1);
}

TEST_CASE("copier: any layout, with kernels and without") {
    test_stream const s;
    for (bool const pack : {false, true}) {
        CAPTURE(pack);
        cuda::copier copier{pack ? with_pack() : cuda::copier_options{}};
        for (auto const& l : layouts()) {
            if (is_short() && l.dst_bytes > 16 * mib) continue;
            for (auto const far : {gpu, managed})
                for (auto const near : {ferry::cpu, pinned, managed}) {
                    check_layout(l, near, far, copier, s.token());
                    check_layout(l, far, near, copier, s.token());
                }
            check_layout(l, gpu, gpu, copier, s.token());
            check_layout(l, ferry::cpu, gpu, copier, {});
            check_layout(l, pinned, gpu, copier, ferry::stream_token::cuda_legacy_default());
        }
    }
}

TEST_CASE("copier: a plan larger than a slab is copied completely") {
    auto options = with_pack();
    if (is_short()) options.slab_bytes = mib;
    cuda::copier copier{options};
    test_stream const s;
    std::int64_t const rows = is_short() ? 1000 : 10'000, columns = 1500 * (rows / 1000);
    auto const bytes_there = static_cast<std::size_t>(4 * rows * columns);
    layout const l{"transposed", {ferry::type_code::float_, 32}, {rows, columns}, {}, {1, rows}, 0, 0, bytes_there,
                   bytes_there};
    check_layout(l, ferry::cpu, gpu, copier, s.token());
    check_layout(l, gpu, pinned, copier, s.token());
}

TEST_CASE("copier: starts no thread and pins nothing before a copy needs it") {
    cuda::copier copier;
    for (std::int64_t const n : {std::int64_t{1} << 18, std::int64_t{1} << 20}) {
        CHECK(copier.started_lanes() == 0);
        CHECK(copier.pinned().first == (n == 1 << 20 ? mib / 4 : 0));
        auto const source = filled(gpu, numbered(static_cast<std::size_t>(n)));
        bytes to(static_cast<std::size_t>(n));
        ferry::copy(flat(to.data(), n, ferry::cpu), flat(source.data(), n, gpu), copier);
        CHECK(to == numbered(static_cast<std::size_t>(n)));
    }
    CHECK(copier.started_lanes() > 0);
}

TEST_CASE("copier: the memory of released results is used again, up to a bound") {
    for (std::size_t const bound : {std::size_t{0}, 3 * mib}) {
        cuda::copier_options options;
        options.most_host_kept = bound;
        auto owner = std::make_optional<cuda::copier>(options);
        void* first = nullptr;
        {
            auto const result = owner->allocate(ferry::cpu, 2 * mib, {});
            first = result.data();
        }
        CHECK(owner->host_kept() == (bound == 0 ? 0 : 2 * mib));
        auto outlives = std::make_optional(owner->allocate(ferry::cpu, 2 * mib, {}));
        CHECK((bound == 0 || outlives->data() == first));
        static_cast<void>(owner->allocate(ferry::cpu, 4 * mib, {}));
        static_cast<void>(owner->allocate(ferry::cpu, 1000, {}));
        CHECK(owner->host_kept() == 0);
        owner.reset();
        std::memset(outlives->data(), 1, outlives->size());
    }
}

TEST_CASE("copier: many threads at once") {
    cuda::copier copier{with_pack()};
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (unsigned i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            std::mt19937 random{i};
            test_stream const s;
            for (int round = 0; round < 12; ++round) {
                auto const n = static_cast<std::int64_t>(1 + random() % (24 * mib));
                auto const source = numbered(static_cast<std::size_t>(n), i + 1);
                cuda::memory const far{gpu, source.size(), s.token()};
                bytes back(source.size());
                bool const named = round % 3 != 0;
                if (!named) s.finish();
                ferry::copy(flat(far.data(), n, gpu), flat(const_cast<unsigned char*>(source.data()), n, ferry::cpu),
                            copier, named ? s.token() : ferry::stream_token{});
                ferry::copy(flat(back.data(), n, ferry::cpu), flat(far.data(), n, gpu), copier,
                            named ? s.token() : ferry::stream_token{});
                if (back != source) ++wrong;
            }
        });
    for (auto& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(copier.pinned().first == copier.pinned().second);
}

TEST_CASE("copier: waits for its own stream and for no other") {
    cuda::copier copier;
    test_stream const closed, open;
    std::int64_t const n = 32 * mib;
    auto const source = filled(gpu, numbered(32 * mib));
    bytes to(32 * mib), later(32 * mib);
    auto const copy_to = [&](bytes& dst, ferry::stream_token on) {
        ferry::copy(flat(dst.data(), n, ferry::cpu), flat(source.data(), n, gpu), copier, on);
    };
    copy_to(to, open.token());  // slots are pinned and threads started before the gate closes
    std::fill(to.begin(), to.end(), poison);
    gate g{closed.get()};
    auto waits = std::async(std::launch::async, [&] { copy_to(later, closed.token()); });
    copy_to(to, open.token());
    CHECK(to == numbered(32 * mib));
    ferry::copy(flat(to.data(), n, ferry::cpu), flat(source.data(), n, gpu), copier);
    CHECK_GATED(!g.is_open());
    CHECK(waits.wait_for(std::chrono::milliseconds{50}) == std::future_status::timeout);
    g.open();
    waits.get();
    CHECK(later == numbered(32 * mib));
    CHECK_GATED(!g.was_forced());
}

TEST_CASE("copier: the host receives what a closed stream writes later") {
    cuda::copier copier;
    for (std::int64_t const n : {1000, 8'000'000}) {
        test_stream const s;
        auto const source = make_poisoned(gpu, {n});
        {
            ferry::cuda::memory const warm{gpu, 4, s.token()};
        }
        std::vector<float> to(static_cast<std::size_t>(n));
        ferry::copy(ferry::tensor_view{to.data(), source.shape},
                    ferry::tensor_view{source.first(), source.shape, {}, gpu}, copier, s.token());
        gate g{s.get()};
        iota(source.first(), source.size(), s.get());
        opener const later{g};
        ferry::copy(ferry::tensor_view{to.data(), source.shape},
                    ferry::tensor_view{source.first(), source.shape, {}, gpu}, copier, s.token());
        CHECK_GATED(g.is_open());
        CHECK(is_iota(to));
        CHECK_GATED(!g.was_forced());
    }
}

TEST_CASE("copier: a captured stream is refused before anything is queued, and its capture stays valid") {
    cuda::copier copier;
    test_stream const s;
    auto const source = filled(gpu, numbered(mib));
    std::int64_t const n = mib;
    bytes to(mib);
    must(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed));
    fails(ferry::errc::capturing,
          [&] { ferry::copy(flat(to.data(), n, ferry::cpu), flat(source.data(), n, gpu), copier, s.token()); });
    cudaGraph_t graph = nullptr;
    must(cudaStreamEndCapture(s.get(), &graph));
    must(cudaGraphDestroy(graph));
}

TEST_CASE("copier: after any call fails, one error is thrown, no slot is lost, and the next copy works") {
    if (!calls::are_seen()) {
        MESSAGE("skipped: libcudart is linked statically, and no call can be made to fail");
        return;
    }
    constexpr std::size_t size = 12 * mib;
    auto const source = numbered(size);
    std::int64_t const n = size, shape[] = {1536, 2048}, strides[] = {1, 1536};
    test_stream const s;
    auto const far = filled(gpu, source);
    bytes to(size);
    for (int what = 0; what < 3; ++what) {
        CAPTURE(what);
        int failures = 0;
        for (int nth = 1; nth < 400; ++nth) {
            cuda::copier copier{with_pack()};
            auto const copy = [&] {
                if (what == 0) ferry::copy(flat(to.data(), n, ferry::cpu), flat(far.data(), n, gpu), copier, s.token());
                if (what == 1)
                    ferry::copy(flat(far.data(), n, gpu),
                                flat(const_cast<unsigned char*>(source.data()), n, ferry::cpu), copier, s.token());
                if (what == 2) {
                    auto* const floats = reinterpret_cast<float*>(to.data());
                    ferry::copy(ferry::tensor_view{floats, shape},
                                ferry::tensor_view{static_cast<float*>(far.data()), shape, strides, gpu}, copier,
                                s.token());
                }
            };
            calls::fail_at(nth);
            bool threw = false;
            try {
                copy();
            } catch (ferry::error const&) {
                threw = true;
            }
            bool const failed = calls::has_failed();
            calls::fail_at(0);
            CHECK((failed || !threw));
            CHECK(copier.pinned().first == copier.pinned().second);
            CHECK(left_no_error());
            CHECK_NOTHROW(copy());
            if (!failed) break;
            failures += threw ? 1 : 0;
        }
        CHECK(failures > 5);
        if (what == 0) CHECK(to == source);
        CHECK(content_of(far.data(), size) == source);
    }
}

TEST_CASE("pending: a copy to pinned or managed memory does not block, and is complete (R48)") {
    cuda::copier copier;
    for (auto const where : {pinned, managed}) {
        test_stream const s;
        auto source = make_poisoned(gpu, {100'000});
        {
            auto const warm = copier.allocate(pinned, 400'000, {});
        }  // kept: nothing is pinned behind the gate
        float* const first = source.first();
        auto const count = source.size();
        auto copy = [&] {
            gate g{s.get()};
            iota(first, count, s.get());
            auto pending = cuda::copy_async(ferry::to_dlpack(std::move(source)), where, copier, s.token());
            CHECK_GATED(!g.is_open());
            CHECK_GATED(!pending.is_ready());
            CHECK(pending.token() == s.token());
            g.open();
            CHECK_GATED(!g.was_forced());
            return pending;
        }();
        auto const got = copy.get();
        CHECK(got.device().type == where.type);
        CHECK(got.is_copied());
        CHECK(is_iota_on_host(got.view()));
        CHECK(copy.is_ready());
        fails(ferry::errc::consumed, [&] { static_cast<void>(copy.get()); });
    }
    auto t = ferry::to_dlpack(make_array(gpu, ferry::already_ready, {4}));
    fails(ferry::errc::device,
          [&] {
              static_cast<void>(
                  cuda::copy_async(std::move(t), ferry::cpu, copier, ferry::stream_token::cuda_legacy_default()));
          },
          {"cuda_host"});
    CHECK(t);
}

TEST_CASE("reaper: releases a tensor on the polling thread, after its stream's work has completed (R50)") {
    test_stream const s;
    auto watched = make_array(gpu, ferry::already_ready, {1000});
    std::weak_ptr<cuda::memory> const alive = watched.memory;
    cuda::reaper reaper;
    auto tensor = ferry::to_dlpack(std::move(watched));
    {
        gate g{s.get()};
        cuda::release_after(s.token(), reaper, std::move(tensor));
        CHECK_GATED(reaper.poll() == 0);
        CHECK(!alive.expired());
        CHECK(reaper.size() == 1);
        g.open();
        s.finish();
        CHECK(reaper.poll() == 1);
    }
    CHECK(alive.expired());
    auto other = make_array(gpu, ferry::already_ready, {1000});
    std::weak_ptr<cuda::memory> const last = other.memory;
    {
        cuda::reaper drains;
        cuda::release_after(s.token(), drains, ferry::to_dlpack(std::move(other)));
    }
    CHECK(last.expired());
}

TEST_CASE("batch: copies scattered pieces on any stream, including the legacy default stream") {
    constexpr std::size_t piece = 4096, count = 500;
    auto const source = numbered(piece * count * 2);
    auto const src = filled(gpu, source);
    test_stream const s;
    for (auto const on :
         {s.token(), ferry::stream_token::cuda_legacy_default(), ferry::stream_token::cuda_per_thread_default()}) {
        auto const dst = filled(pinned, bytes(piece * count, poison));
        auto* const to = static_cast<unsigned char*>(dst.data());
        auto const* const from = static_cast<unsigned char const*>(src.data());
        std::vector<cuda::piece> pieces;
        for (std::size_t i = 0; i < count; ++i)
            pieces.push_back({to + i * piece, from + (count - 1 - i) * 2 * piece, i == 7 ? 0 : piece});
        cuda::copy_batch(pieces, on);
        cuda::wait(on);
        int wrong = 0;
        for (std::size_t i = 0; i < count; ++i)
            if (i != 7 && std::memcmp(to + i * piece, source.data() + (count - 1 - i) * 2 * piece, piece) != 0) ++wrong;
        CHECK(wrong == 0);
        CHECK(to[7 * piece] == poison);
    }
    cuda::copy_batch({}, s.token());
    CHECK(left_no_error());
}

TEST_CASE("copier: between two GPUs") {
    if (gpus() < 2) {
        MESSAGE("skipped: one GPU");
        return;
    }
    cuda::copier copier{with_pack()};
    ferry::device const second{ferry::device_type::cuda, 1};
    test_stream const s;
    for (std::size_t const n : {std::size_t{1}, 64 * mib}) {
        auto const source = numbered(n);
        auto const from = filled(gpu, source);
        cuda::memory const to{second, n, {}};
        auto const count = static_cast<std::int64_t>(n);
        ferry::copy(flat(to.data(), count, second), flat(from.data(), count, gpu), copier, s.token());
        CHECK(content_of(to.data(), n) == source);
    }
    for (auto const& l : layouts()) check_layout(l, second, gpu, copier, s.token());
    CHECK(left_no_error());
}

TEST_CASE("to_host by the copier: a copy is complete and has its own memory, for any stream of the source (R48)") {
    cuda::copier copier;
    test_stream const s;
    auto const a = make_array(gpu, s.token(), {3'000'000});
    auto const h = ferry::to_host(a, copier);
    CHECK(h.is_copied());
    CHECK(is_iota_on_host(h.view()));
}
