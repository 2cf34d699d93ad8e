// Every wait of the copier, of its lanes and of batches, shown by a gate: each has a mutant
// (tests/mutants/cuda.toml).
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace {

using namespace support;
namespace cuda = ferry::cuda;
using ferry::stream_token;

/// The pack function of a copier here: waits for a gate, which another thread opens later. It is the only access to the
/// copier's own stream.
struct slow_pack {
    static inline bool is_armed = false;
    static inline std::optional<gate> closed;
    static inline std::optional<opener> later;

    static void pack(ferry::copy_plan const& plan, void* dst, void const* src, cuda::stream_ref on) {
        if (is_armed) {
            closed.emplace(on.get());
            later.emplace(*closed);
            is_armed = false;
        }
        cuda::pack(plan, dst, src, on);
    }
    /// Runs a copy whose kernel waits for the gate; returns whether the gate was open when the copy returned.
    template <class Copy>
    [[nodiscard]] static bool waits(Copy copy) {
        is_armed = true;
        copy();
        bool const was_closed = closed.has_value(), is_open = was_closed && closed->is_open();
        later.reset();
        closed.reset();
        is_armed = false;
        CHECK(was_closed);
        return is_open;
    }
};

cuda::copier_options packing_slowly() {
    cuda::copier_options o;
    o.pack = slow_pack::pack;
    return o;
}

ferry::tensor_view floats(void* p, std::vector<std::int64_t> const& shape, std::vector<std::int64_t> const& strides,
                          ferry::device where) {
    return {static_cast<float*>(p), shape, strides.empty() ? ferry::strides_view{} : ferry::strides_view{strides},
            where};
}

/// Calls a back end's copy directly: `ferry::copy` waits for its stream afterwards, and would hide the copier's own
/// waits.
template <class BackEnd>
void copy_by(BackEnd& b, ferry::tensor_view const& to, ferry::tensor_view const& from, stream_token on = {}) {
    b.copy(ferry::make_copy_plan(to, from), to.writable_data(), to.device(), from.data(), from.device(), on);
}

/// Whether `values` are 1, 2, 3, … of the columns, row by row.
bool is_transposed(std::vector<float> const& values, std::int64_t rows, std::int64_t columns) {
    for (std::int64_t y = 0; y < rows; ++y)
        for (std::int64_t x = 0; x < columns; ++x)
            if (values[static_cast<std::size_t>(y * columns + x)] != static_cast<float>(x * rows + y + 1)) return false;
    return true;
}

/// Runs `act` with its n-th CUDA call failing after a closed gate on `s`, for n = 1, 2, … until none fails. Checks that
/// the host waited for the gate each time that work was queued already, and that this happened at least once.
template <class Act, class IsQueued>
void waits_when_it_fails(cudaStream_t s, Act act, IsQueued is_queued) {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    int seen = 0;
    bool failed = true;
    for (int n = 1; failed && n < 200; ++n) {
        CAPTURE(n);
        gate closed{s};
        opener const later{closed, std::chrono::milliseconds{50}};
        bool threw = false, is_open = false;
        calls::reset();
        calls::fail_at(n);
        try {
            act();
        } catch (ferry::error const&) {
            threw = true;
            is_open = closed.is_open();
        }
        failed = calls::has_failed();
        bool const was_queued = is_queued();
        calls::fail_at(0);
        if (!threw || !was_queued) continue;
        ++seen;
        CHECK(is_open);
    }
    CHECK(!failed);
    CHECK(seen > 0);
    CHECK(left_no_error());
}

}  // namespace

TEST_CASE("copier: a copy without a stream is complete when it returns") {
    cuda::copier copier{packing_slowly()};
    auto const from = make_array(gpu, ferry::already_ready, {500, 300}), to = make_poisoned(gpu, {300, 500});
    auto const copy = [&] {
        ferry::copy(floats(to.first(), {300, 500}, {}, gpu), floats(from.first(), {300, 500}, {1, 300}, gpu), copier);
    };
    copy();  // loads the kernels
    fill(to.first(), poison, 600'000);
    CHECK(slow_pack::waits(copy));
    CHECK(is_transposed(read(to.first(), 150'000), 300, 500));
}

TEST_CASE("copy: a copy that a back end queued is complete on return, whatever type the memory is described as") {
    cuda::copier copier;
    test_stream const s;
    for (std::int64_t const n : {1000, 300'000, 2'000'000})
        for (auto const where : {pinned, managed})
            for (auto const said : {where, ferry::cpu}) {
                CAPTURE(n);
                auto const from = make_poisoned(gpu, {n}), to = make_poisoned(where, {n});
                auto const copy = [&](auto& b) {
                    return ferry::copy(floats(to.first(), {n}, {}, said), floats(from.first(), {n}, {}, gpu), b,
                                       s.token());
                };
                copy(copier);
                for (bool const is_plain : {false, true}) {
                    fill(from.first(), poison, from.size() * sizeof(float));
                    fill(to.first(), poison, to.size() * sizeof(float));
                    gate closed{s.get()};
                    iota(from.first(), from.size(), s.get());
                    opener const later{closed, std::chrono::milliseconds{20}};
                    if (is_plain) copy(cuda::system);
                    else copy(copier);
                    CHECK(is_iota_on_host(floats(to.first(), {n}, {}, ferry::cpu)));
                }
            }
}

TEST_CASE("copy: the host waits once for a copy to pageable memory") {
    cuda::copier copier;
    test_stream const s;
    auto const from = make_array(gpu, ferry::already_ready, {1000});
    std::vector<float> to(1000);
    auto const copy = [&] {
        return ferry::copy(floats(to.data(), {1000}, {}, ferry::cpu), floats(from.first(), {1000}, {}, gpu), copier,
                           s.token());
    };
    copy();
    calls::reset();
    copy();
    if (calls::are_seen()) CHECK(calls::count(calls::of::synchronize) == 1);
    CHECK(is_iota(to));
}

TEST_CASE("copier: host memory that was copied from may be overwritten at once, pinned or not") {
    cuda::copier copier;
    test_stream const s;
    for (std::int64_t const n : {1000, 2'000'000}) {
        auto const from = make_array(pinned, ferry::already_ready, {n}), to = make_poisoned(gpu, {n});
        // As PyTorch describes pinned memory (R38).
        auto const copy = [&] {
            copy_by(copier, floats(to.first(), {n}, {}, gpu), floats(from.first(), {n}, {}, ferry::cpu), s.token());
        };
        copy();
        fill(to.first(), poison, from.size() * sizeof(float));
        gate closed{s.get()};
        opener const later{closed};
        copy();
        CHECK_GATED(closed.is_open());
        std::memset(from.first(), 0, from.size() * sizeof(float));
        s.finish();
        CHECK(is_iota(read(to.first(), from.size())));
    }
}

TEST_CASE("copier: lanes start, and small copies leave their buffer, in stream order") {
    cuda::copier copier;
    test_stream const s;
    for (std::int64_t const n : {1000, 200'000, 3'000'000}) {
        CAPTURE(n);
        auto const from = make_poisoned(gpu, {n});
        std::vector<float> to(from.size());
        auto const copy = [&] {
            ferry::copy(floats(to.data(), from.shape, {}, ferry::cpu), floats(from.first(), from.shape, {}, gpu),
                        copier, s.token());
        };
        copy();  // starts lanes and pins slots
        gate closed{s.get()};
        iota(from.first(), from.size(), s.get());
        opener const later{closed};
        copy();
        CHECK_GATED(closed.is_open());
        CHECK(is_iota(to));
    }
}

TEST_CASE("copier: lanes start after their slab is packed") {
    cuda::copier copier{packing_slowly()};
    auto const from = make_poisoned(gpu, {2000, 1500});
    std::vector<float> to(from.size());
    auto const copy = [&] {
        ferry::copy(floats(to.data(), {1500, 2000}, {}, ferry::cpu), floats(from.first(), {1500, 2000}, {1, 1500}, gpu),
                    copier);
    };
    copy();  // other values: the memory that they were packed in comes back
    {
        test_stream const s;
        iota(from.first(), from.size(), s.get());
        s.finish();
    }
    CHECK(slow_pack::waits(copy));
    CHECK(is_transposed(to, 1500, 2000));
}

TEST_CASE("copier: the host rearranges what the stream has written, and frees its buffer after it has been read") {
    cuda::copier copier;
    test_stream const s;
    auto const from = make_poisoned(pinned, {200'000}), to = make_poisoned(gpu, {2000, 100});
    auto const copy = [&] {
        copy_by(copier, floats(to.first(), {2000, 100}, {}, gpu), floats(from.first(), {2000, 100}, {1, 2000}, pinned),
                s.token());
    };
    copy();
    gate closed{s.get()};
    iota(from.first(), from.size(), s.get());
    opener const later{closed};
    calls::reset();
    copy();
    CHECK_GATED(closed.is_open());
    // The driver stages pageable memory on most machines and reads it late on others: only the call shows the wait.
    if (calls::are_seen()) CHECK(calls::count(calls::of::synchronize) >= 2);
    s.finish();
    CHECK(is_transposed(read(to.first(), 200'000), 2000, 100));
}

TEST_CASE("copier, system: after a failed copy no work of it is pending") {
    cuda::copier copier;
    test_stream const s;
    constexpr std::size_t step = 1'000'000;
    cuda::memory const from{gpu, 4 * step, {}}, to{pinned, 4 * 100 * 5000, {}};
    std::int64_t const shape[] = {4, 100, 5000}, strides[] = {-static_cast<std::int64_t>(step), 8192, 1};
    auto const check = [&](auto& b) {
        auto const copy = [&] {
            ferry::data_type const u8{ferry::type_code::uint, 8};
            ferry::copy(
                ferry::tensor_view{to.data(), u8, shape, {}, pinned},
                ferry::tensor_view{static_cast<unsigned char*>(from.data()) + 3 * step, u8, shape, strides, gpu}, b,
                s.token());
        };
        copy();
        s.finish();
        waits_when_it_fails(s.get(), copy, [] { return calls::count(calls::of::copy) >= 2; });
    };
    check(copier);
    check(cuda::system);
}

TEST_CASE("cuda: a failed wait for a stream has waited, whichever call fails") {
    test_stream const s;
    waits_when_it_fails(s.get(), [&] { cuda::wait(s.token()); }, [] { return true; });
}

TEST_CASE("copier, system: a failed wait is repeated before memory is freed") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    cuda::copier copier;
    test_stream const s;
    auto const from = make_array(gpu, ferry::already_ready, {1000}), to = make_poisoned(gpu, {2000, 100});
    auto const host = make_array(pinned, ferry::already_ready, {200'000});
    std::vector<float> near(1000);
    auto const check = [&](int least, auto copy) {
        copy();
        int seen = 0;
        bool failed = true;
        for (int n = 1; failed && n < 200; ++n) {
            CAPTURE(n);
            calls::reset();
            calls::fail_at(n);
            bool failed_to_wait = false;
            try {
                copy();
            } catch (ferry::error const& e) {
                failed_to_wait = std::strcmp(e.api(), "cudaStreamSynchronize") == 0;
            }
            failed = calls::has_failed();
            calls::fail_at(0);
            if (!failed_to_wait) continue;
            ++seen;
            CHECK(calls::count(calls::of::synchronize) >= least);
        }
        CHECK(!failed);
        CHECK(seen > 0);
        CHECK(left_no_error());
    };
    // The wait that fails, and one before the caller may free the source or the destination.
    check(2, [&] {
        copy_by(cuda::system, floats(from.first(), {1000}, {}, gpu), floats(host.first(), {1000}, {}, ferry::cpu),
                s.token());
    });
    // The wait that fails, one before the buffer is freed, and one before the copy reports.
    check(3, [&] {
        copy_by(copier, floats(near.data(), {1000}, {}, ferry::cpu), floats(from.first(), {1000}, {}, gpu), s.token());
    });
    check(2, [&] {
        copy_by(copier, floats(to.first(), {2000, 100}, {}, gpu), floats(host.first(), {2000, 100}, {1, 2000}, pinned),
                s.token());
    });
    s.finish();
}

TEST_CASE("system: a copy through the host waits until its memory has been read, also when a call fails") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const s;
    auto const from = make_array(gpu, ferry::already_ready, {1000}), to = make_poisoned(gpu, {1000});
    std::vector<std::int64_t> const shape{1000}, step{-1};
    auto const source = floats(from.first() + 999, shape, step, gpu), target = floats(to.first(), shape, {}, gpu);
    auto const plan = ferry::make_copy_plan(target, source);
    auto const backwards = [&] { cuda::system.copy(plan, target.writable_data(), gpu, source.data(), gpu, s.token()); };
    calls::reset();
    backwards();
    // Both directions: the driver stages pageable memory on most machines, so that only the call shows the wait.
    CHECK(calls::count(calls::of::synchronize) == 2);
    auto const got = read(to.first(), 1000);
    CHECK(std::equal(got.rbegin(), got.rend(), read(from.first(), 1000).begin()));
    int seen = 0;
    bool failed = true;
    for (int n = 1; failed && n < 200; ++n) {
        CAPTURE(n);
        bool threw = false;
        calls::reset();
        calls::fail_at(n);
        try {
            backwards();
        } catch (ferry::error const&) {
            threw = true;
        }
        failed = calls::has_failed();
        calls::fail_at(0);
        if (!threw || calls::count(calls::of::copy) == 0) continue;
        ++seen;
        CHECK(calls::count(calls::of::synchronize) >= 2);
    }
    CHECK(!failed);
    CHECK(seen >= 3);
    CHECK(left_no_error());
}

TEST_CASE("copier: a source on the host is read only after the work queued before, also slab by slab (R48)") {
    cuda::copier_options o;
    o.pack = cuda::pack;
    o.slab_bytes = std::size_t{256} << 10;
    cuda::copier copier{o};
    std::vector<std::int64_t> const whole{300'000}, rows{600, 500}, none, across{1, 600};
    auto const from = make_poisoned(pinned, whole), to = make_poisoned(gpu, whole);
    for (bool const is_turned : {false, true})
        for (int round = 0; round < 3; ++round) {  // the first starts lanes
            CAPTURE(is_turned);
            test_stream const s;
            load_kernels();
            gate closed{s.get()};
            iota(from.first(), from.size(), s.get());
            opener const later{closed};
            // Described as cpu, as PyTorch says of pinned memory (R38).
            copy_by(copier, floats(to.first(), is_turned ? rows : whole, is_turned ? across : none, gpu),
                    floats(from.first(), is_turned ? rows : whole, none, ferry::cpu), s.token());
            CHECK_GATED(closed.is_open());
            s.finish();
            auto const got = read(to.first(), to.size());
            CHECK((is_turned ? is_transposed(got, 500, 600) : is_iota(got)));
            auto const spoiled = make_poisoned(pinned, whole);
            std::memcpy(from.first(), spoiled.first(), from.size() * sizeof(float));
        }
}

TEST_CASE("copier: a large copy receives what a closed stream writes later, also slab by slab (R48)") {
    cuda::copier_options o;
    o.pack = cuda::pack;
    o.slab_bytes = std::size_t{2} << 20;
    cuda::copier copier{o};
    for (bool const turned : {false, true})
        for (int round = 0; round < 2; ++round) {
            test_stream const s;
            auto const source = make_poisoned(gpu, {3'000'000});
            std::vector<float> to(source.size(), -1);
            load_kernels();
            gate closed{s.get()};
            iota(source.first(), source.size(), s.get());
            opener const later{closed};
            if (turned)
                copy_by(copier, floats(to.data(), {1500, 2000}, {}, ferry::cpu),
                        floats(source.first(), {1500, 2000}, {1, 1500}, gpu), s.token());
            else
                copy_by(copier, floats(to.data(), {3'000'000}, {}, ferry::cpu),
                        floats(source.first(), {3'000'000}, {}, gpu), s.token());
            CHECK_GATED(closed.is_open());
            CHECK((turned ? is_transposed(to, 1500, 2000) : is_iota(to)));
        }
}

TEST_CASE("copier: a large copy that fails returns after the copies that it queued") {
    cuda::copier copier;
    test_stream const s;
    auto const from = make_array(gpu, ferry::already_ready, {300'000});
    std::vector<float> to(from.size());
    auto const copy = [&] {
        copy_by(copier, floats(to.data(), from.shape, {}, ferry::cpu), floats(from.first(), from.shape, {}, gpu),
                s.token());
    };
    copy();
    waits_when_it_fails(s.get(), copy, [] { return calls::count(calls::of::copy) >= 2; });
    CHECK(is_iota(to));
}

TEST_CASE("lanes: a copy returns after every lane has left it, with any amount of pinned memory") {
    cuda::copier_options little, none;
    little.lanes = 4;
    little.most_pinned = std::size_t{1} << 20;
    none.most_pinned = 0;
    auto const from = make_array(gpu, ferry::already_ready, {16'000'000}), back = make_poisoned(gpu, {16'000'000});
    for (auto const& options : {cuda::copier_options{}, little, none}) {
        cuda::copier copier{options};
        std::vector<float> to(from.size());
        ferry::copy(floats(to.data(), from.shape, {}, ferry::cpu), floats(from.first(), from.shape, {}, gpu), copier);
        CHECK(is_iota(to));
        ferry::copy(floats(back.first(), from.shape, {}, gpu), floats(to.data(), from.shape, {}, ferry::cpu), copier);
        CHECK(is_iota(read(back.first(), from.size())));
        CHECK(copier.pinned().first == copier.pinned().second);
    }
}

TEST_CASE("batch: on the legacy stream it runs after earlier and before later work") {
    constexpr std::size_t pieces = 32, each = std::size_t{1} << 20, tail = 1000;  // floats
    auto const from = make_poisoned(gpu, {static_cast<std::int64_t>(pieces * each)}),
               to = make_poisoned(pinned, from.shape);
    auto const result = make_poisoned(gpu, {static_cast<std::int64_t>(pieces * tail)});
    std::vector<cuda::piece> all;
    for (std::size_t i = 0; i < pieces; ++i)
        all.push_back({to.first() + i * each, from.first() + i * each, each * sizeof(float)});
    auto const on = stream_token::cuda_legacy_default();
    load_kernels();
    cuda::copy_batch(std::span{all}.first(1), on);
    cuda::wait(on);
    gate closed{cudaStreamLegacy};
    iota(from.first(), from.size(), cudaStreamLegacy);
    cuda::copy_batch(all, on);
    CHECK_GATED(!closed.is_open());
    for (std::size_t i = 0; i < pieces; ++i)
        add(result.first() + i * tail, to.first() + (i + 1) * each - tail, 0, tail, cudaStreamLegacy);
    closed.open();
    must(cudaStreamSynchronize(cudaStreamLegacy));
    CHECK_GATED(!closed.was_forced());
    auto const got = read(result.first(), result.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
        if (got[i] != static_cast<float>((i / tail + 1) * each - tail + i % tail + 1)) ++wrong;
    CHECK(wrong == 0);
    CHECK(is_iota_on_host(ferry::view_of(to)));
}

TEST_CASE("pack_pieces: after a later launch fails, no launch is pending") {
    auto const from = make_array(gpu, ferry::already_ready, {3000}), to = make_poisoned(pinned, {3000});
    std::vector<cuda::piece> pieces;
    for (std::size_t i = 0; i < 3000; ++i) pieces.push_back({to.first() + i, from.first() + i, sizeof(float)});
    test_stream const s;
    auto const pack = [&] { cuda::pack_pieces(pieces, s.get()); };
    pack();
    s.finish();
    waits_when_it_fails(s.get(), pack, [] { return calls::count(calls::of::launch) >= 2; });
}

TEST_CASE("copy_batch: after a later copy fails, no copy is pending") {
    if constexpr (cuda::detail::batch_is_loop) {  // otherwise a batch is one call
        auto const from = make_array(gpu, ferry::already_ready, {2000}), to = make_poisoned(pinned, {2000});
        cuda::piece const two[] = {{to.first(), from.first(), 4000}, {to.first() + 1000, from.first() + 1000, 4000}};
        test_stream const s;
        auto const batch = [&] { cuda::copy_batch(two, s.token()); };
        batch();
        s.finish();
        waits_when_it_fails(s.get(), batch, [] { return calls::count(calls::of::copy) >= 2; });
    }
}

TEST_CASE("batch: when the legacy stream cannot wait for it, the host does") {
    auto const from = make_array(gpu, ferry::already_ready, {1000}), to = make_poisoned(pinned, {1000});
    cuda::piece const only[] = {{to.first(), from.first(), 4000}};
    auto const batch = [&] { cuda::copy_batch(only, stream_token::cuda_legacy_default()); };
    batch();
    must(cudaStreamSynchronize(cudaStreamLegacy));
    waits_when_it_fails(cudaStreamLegacy, batch, [] { return calls::count(calls::of::record) >= 2; });
}
