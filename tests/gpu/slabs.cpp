// Strided copies of several slabs: correct whatever step is late, in both directions, by the copy engine and by lanes.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using namespace support;
namespace cuda = ferry::cuda;

constexpr std::size_t mib = std::size_t{1} << 20;

/// The slab that `pack_when_told` delays by a gate, or fails for; counted from 1, 0: none.
int hold_at = 0, throw_at = 0, calls_of_pack = 0;
std::unique_ptr<gate> held;
std::atomic<gate*> closed = nullptr;  // the same, for the thread that opens it

void pack_when_told(ferry::copy_plan const& plan, void* dst, void const* src, cuda::stream_ref on) {
    ++calls_of_pack;
    if (calls_of_pack == throw_at) throw std::runtime_error{"a pack function that fails"};
    if (calls_of_pack == hold_at) {
        held = std::make_unique<gate>(on.get());
        closed = held.get();
    }
    cuda::pack(plan, dst, src, on);
}
void tell(int hold, int fail) {
    hold_at = hold;
    throw_at = fail;
    calls_of_pack = 0;
}

cuda::copier_options with_slabs_of(std::size_t bytes) {
    cuda::copier_options o;
    o.pack = pack_when_told;
    o.slab_bytes = bytes;
    return o;
}

/// A matrix of floats on the GPU, another one on the host side, and transposed copies between them.
struct turned {
    std::int64_t shape[2], steps[2];
    gpu_array far, near;
    turned(ferry::device where, std::int64_t rows, std::int64_t columns)
        : shape{rows, columns},
          steps{1, rows},
          far{make_array(gpu, ferry::already_ready, {rows * columns})},
          near{make_array(where, ferry::already_ready, {rows * columns})} {}

    void down(cuda::copier& by, ferry::stream_token on) {
        auto const plan = plan_of(near, far);
        by.copy(plan, near.first(), near.where, far.first(), gpu, on);
    }
    void up(cuda::copier& by, ferry::stream_token on) {
        auto const plan = plan_of(far, near);
        by.copy(plan, far.first(), gpu, near.first(), near.where, on);
    }
    /// To the host the destination is dense and the source transposed; to the device the source is dense and the
    /// destination transposed.
    [[nodiscard]] ferry::copy_plan plan_of(gpu_array const& to, gpu_array const& from) {
        bool const is_down = &to == &near;
        auto const view = [&](float* p, ferry::device where, bool is_turned) {
            return ferry::tensor_view{p, shape, is_turned ? ferry::strides_view{steps, 2} : ferry::strides_view{},
                                      where};
        };
        return ferry::make_copy_plan(view(to.first(), to.where, !is_down), view(from.first(), from.where, is_down));
    }
    /// Whether the other side holds 1, 2, 3, … transposed.
    [[nodiscard]] bool is_right(gpu_array const& got, bool was_down) const {
        auto const values = read(got.first(), got.size());
        for (std::int64_t r = 0; r < shape[0]; ++r)
            for (std::int64_t c = 0; c < shape[1]; ++c) {
                auto const dense = r * shape[1] + c, across = r + c * shape[0];
                if (values[static_cast<std::size_t>(was_down ? dense : across)] !=
                    static_cast<float>((was_down ? across : dense) + 1))
                    return false;
            }
        return true;
    }
    void spoil(gpu_array const& a) const {
        if (a.where.type == ferry::device_type::cpu) std::memset(a.first(), poison, a.size() * sizeof(float));
        else fill(a.first(), poison, a.size() * sizeof(float));
    }
};

/// Long enough for all work that does not wait.
void linger() { std::this_thread::sleep_for(std::chrono::milliseconds{100}); }

}  // namespace

TEST_CASE("copier: a copy in many slabs is complete, in both directions, for any slab size") {
    test_stream const s;
    for (auto const where : {ferry::cpu, pinned})
        for (std::size_t const slab : {std::size_t{1}, std::size_t{50'000}, mib}) {
            CAPTURE(static_cast<int>(where.type));
            CAPTURE(slab);
            cuda::copier copier{with_slabs_of(slab)};
            turned m{where, 700, slab == 1 ? 40 : 1500};
            tell(0, 0);
            for (auto const on : {s.token(), ferry::stream_token{}, ferry::stream_token::cuda_legacy_default()}) {
                m.spoil(m.near);
                m.down(copier, on);
                cuda::wait(on);
                CHECK(m.is_right(m.near, true));
                m = turned{where, m.shape[0], m.shape[1]};
                m.spoil(m.far);
                m.up(copier, on);
                cuda::wait(on);
                CHECK(m.is_right(m.far, false));
                m = turned{where, m.shape[0], m.shape[1]};
            }
            CHECK(calls_of_pack > 6);
            CHECK(copier.pinned().first == copier.pinned().second);
            CHECK(left_no_error());
        }
}

TEST_CASE(
    "copier: slabs are transferred to and from pinned memory while the next is packed, and complete in stream order") {
    test_stream const s;
    cuda::copier copier{with_slabs_of(16 * mib)};
    turned m{pinned, 4096, 4096};
    tell(0, 0);
    m.spoil(m.near);
    m.down(copier, s.token());
    s.finish();
    auto const* const last = m.near.first() + m.near.size() - 1;
    CHECK(*last == static_cast<float>(m.near.size()));  // at once
    CHECK(m.is_right(m.near, true));
    turned back{pinned, 4096, 4096};
    back.spoil(back.far);
    back.up(copier, s.token());
    s.finish();
    CHECK(back.is_right(back.far, false));
}

TEST_CASE("copier: slabs contain what a closed stream writes later, and copies to pinned memory do not block") {
    cuda::copier copier{with_slabs_of(mib)};
    for (bool const is_down : {true, false}) {
        CAPTURE(is_down);
        test_stream const s;
        turned m{pinned, 1000, 1024};
        tell(0, 0);
        if (is_down) m.down(copier, s.token());
        else m.up(copier, s.token());  // loads the kernels, grows the pool
        s.finish();
        auto const& from = is_down ? m.far : m.near;
        m.spoil(m.far);
        m.spoil(m.near);
        load_kernels();
        gate g{s.get()};
        iota(from.first(), from.size(), s.get());
        if (is_down) m.down(copier, s.token());
        else m.up(copier, s.token());
        linger();
        CHECK_GATED(!g.is_open());
        g.open();
        s.finish();
        CHECK_GATED(!g.was_forced());
        CHECK(m.is_right(is_down ? m.near : m.far, is_down));
    }
}

TEST_CASE("copier: lanes transfer slabs of what a closed stream writes later") {
    cuda::copier copier{with_slabs_of(mib)};
    test_stream const s;
    turned m{ferry::cpu, 1000, 1024};
    tell(0, 0);
    m.down(copier, s.token());
    m.spoil(m.far);
    m.spoil(m.near);
    load_kernels();
    gate g{s.get()};
    iota(m.far.first(), m.far.size(), s.get());
    opener const later{g};
    m.down(copier, s.token());
    CHECK_GATED(!g.was_forced());
    CHECK(m.is_right(m.near, true));
}

TEST_CASE("copier: the transfer of a slab waits for its packing, also by lanes") {
    for (auto const where : {ferry::cpu, pinned}) {
        cuda::copier copier{with_slabs_of(mib)};
        test_stream const s;
        turned m{where, 1000, 1024};
        tell(0, 0);
        m.down(copier, s.token());
        s.finish();
        m.spoil(m.near);
        load_kernels();
        tell(3, 0);
        std::thread opens{[] {
            linger();
            linger();
            if (gate* const g = closed.exchange(nullptr); g != nullptr) g->open();
        }};
        m.down(copier, s.token());
        opens.join();
        s.finish();
        held.reset();
        CHECK(m.is_right(m.near, true));
    }
}

TEST_CASE("copier: a buffer is refilled only after its slab has been unpacked") {
    for (auto const where : {ferry::cpu, pinned}) {
        CAPTURE(static_cast<int>(where.type));
        cuda::copier copier{with_slabs_of(mib)};
        test_stream const s;
        turned m{where, 1000, 1024};
        tell(0, 0);
        m.up(copier, s.token());
        s.finish();
        m.spoil(m.far);
        load_kernels();
        tell(1, 0);  // the first slab is unpacked behind a gate
        std::thread opens{[] {
            linger();
            linger();
            if (gate* const g = closed.exchange(nullptr); g != nullptr) g->open();
        }};
        m.up(copier, s.token());
        opens.join();
        s.finish();
        held.reset();
        CHECK(m.is_right(m.far, false));
    }
}

TEST_CASE("copier: when packing a slab fails, no transfer is pending when the error is thrown") {
    for (auto const where : {ferry::cpu, pinned}) {
        CAPTURE(static_cast<int>(where.type));
        cuda::copier copier{with_slabs_of(16 * mib)};
        test_stream const s;
        turned m{where, 4096, 4096};
        tell(0, 0);
        m.down(copier, s.token());
        s.finish();
        m.spoil(m.near);
        tell(0, 3);
        CHECK_THROWS_AS(m.down(copier, s.token()), std::runtime_error);
        constexpr std::size_t slab = 16 * mib / sizeof(float), page = 1024;
        float volatile* const second = m.near.first() + slab;
        for (std::size_t i = 0; i < slab; i += page) second[i] = -7;
        linger();
        int written = 0;
        for (std::size_t i = 0; i < slab; i += page) written += second[i] != -7 ? 1 : 0;
        CHECK(written == 0);
        tell(0, 0);
        m.down(copier, s.token());
        s.finish();
        CHECK(m.is_right(m.near, true));
    }
}

TEST_CASE("copier: without device memory for packing, the host rearranges, for one slab and for many") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const s;
    tell(0, 0);
    for (auto const where : {ferry::cpu, pinned})
        for (bool const is_down : {true, false})
            for (std::size_t const slab : {mib / 2, 4 * mib}) {
                CAPTURE(static_cast<int>(where.type));
                CAPTURE(is_down);
                CAPTURE(slab);
                cuda::copier copier{with_slabs_of(slab)};
                turned m{where, 512, 1024};
                auto const copy = [&] {
                    if (is_down) m.down(copier, s.token());
                    else m.up(copier, s.token());
                    s.finish();
                };
                copy();
                int failures = 0;
                for (int nth = 1; nth < 100; ++nth) {
                    CAPTURE(nth);
                    auto const& to = is_down ? m.near : m.far;
                    m.spoil(to);
                    calls::fail_at(nth, calls::failure::out_of_memory);
                    CHECK_NOTHROW(copy());
                    bool const failed = calls::has_failed();
                    calls::fail_at(0);
                    CHECK(m.is_right(to, is_down));
                    CHECK(left_no_error());
                    if (!failed) break;
                    ++failures;
                }
                CHECK(failures >= (slab < mib ? 2 : 1));  // the buffers, and more
            }
}

TEST_CASE("copier: after any call of a copy in slabs fails, no work of it is pending and the next copy works") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const s;
    tell(0, 0);
    for (auto const where : {ferry::cpu, pinned})
        for (bool const is_down : {true, false}) {
            CAPTURE(static_cast<int>(where.type));
            CAPTURE(is_down);
            turned m{where, 512, 1024};
            int failures = 0;
            for (int nth = 1; nth < 400; ++nth) {
                CAPTURE(nth);
                cuda::copier copier{with_slabs_of(mib / 2)};
                auto const copy = [&] {
                    if (is_down) m.down(copier, s.token());
                    else m.up(copier, s.token());
                };
                m = turned{where, 512, 1024};
                auto const& to = is_down ? m.near : m.far;
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
                if (!threw) s.finish();
                m.spoil(to);
                s.finish();
                auto const after = read(to.first(), to.size());
                float const* const first = after.data();
                unsigned char expected[sizeof(float)];
                std::memset(expected, poison, sizeof expected);
                bool is_left_alone = true;
                for (std::size_t i = 0; i < after.size(); ++i)
                    is_left_alone = is_left_alone && std::memcmp(first + i, expected, sizeof expected) == 0;
                CHECK((is_left_alone || !threw));
                CHECK(copier.pinned().first == copier.pinned().second);
                CHECK(left_no_error());
                CHECK_NOTHROW(copy());
                s.finish();
                CHECK(m.is_right(to, is_down));
                if (!failed) break;
                failures += threw ? 1 : 0;
            }
            CHECK(failures > 10);
        }
}
