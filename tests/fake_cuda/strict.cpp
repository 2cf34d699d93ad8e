// Tests that need the fake: waits that fail without having waited, and memory that aborts when queued work touches it
// after its release; and the fake itself, whose faults must be detected.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/reaper.hpp>
#include <fake_cuda/fake.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace support;
namespace cuda = ferry::cuda;
using ferry::device;
using ferry::device_type;

constexpr device gpu1{device_type::cuda, 1};
constexpr device everywhere[] = {ferry::cpu, gpu, gpu1, pinned, managed};

/// The name of a fault.
[[nodiscard]] std::string fault_of(std::function<void()> const& act) {
    fake::caught const here;
    act();
    auto const sentences = here.sentences();
    return sentences.empty() ? "" : sentences.front();
}

cuda::copier_options small_slabs(bool packs) {
    cuda::copier_options o;
    o.lanes = 2;
    o.slab_bytes = 4096;
    if (packs) o.pack = cuda::pack;
    return o;
}

/// Memory of any kind with a layout, and the host's copy of it.
struct strided {
    std::vector<unsigned char> near;
    cuda::memory far;
    std::vector<std::int64_t> strides;
    std::int64_t first = 0;  // in bytes

    strided(device where, std::vector<std::int64_t> const& shape, ferry::data_type type, bool is_source,
            std::mt19937& random)
        : near{}, far{where, 1, {}} {
        auto const bits = std::int64_t{type.bits};
        std::vector<std::size_t> order(shape.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        strides.resize(shape.size());
        std::int64_t step = 1, low = 0, high = 1;
        for (auto const i : order) {
            bool const is_repeated = is_source && random() % 6 == 0;
            strides[i] = is_repeated ? 0 : (random() % 4 == 0 ? -step : step);
            (strides[i] < 0 ? low : high) += (shape[i] - 1) * strides[i];
            if (!is_repeated) step = step * shape[i] + static_cast<std::int64_t>(random() % 3);
        }
        auto const whole = [&](std::int64_t n) { return n * bits % 8 == 0 ? n * bits / 8 : n * bits / 8 + 1; };
        first = whole(-low) + 4 * static_cast<std::int64_t>(random() % 3);
        first = (first + 7) / 8 * 8;
        near.resize(static_cast<std::size_t>(first + whole(high) + 8));
        for (auto& b : near) b = static_cast<unsigned char>(random());
        far = cuda::memory{where, near.size(), {}};
        move(far.data(), near.data());
    }
    void move(void* to, void const* from) const {
        on_device const there{far.device().type == device_type::cuda ? far.device().id : 0};
        test_stream const s;
        must(cudaMemcpyAsync(to, from, near.size(), cudaMemcpyDefault, s.get()));
        s.finish();
    }
    [[nodiscard]] ferry::tensor_view at(void* p, std::vector<std::int64_t> const& shape, ferry::data_type type,
                                        device where) const {
        return {static_cast<void*>(static_cast<unsigned char*>(p) + first), type, shape, strides, where};
    }
};

/// Copies random layouts between all pairs of devices, and compares all bytes of the destination with a copy by the
/// host.
template <class BackEnd>
void copies_everywhere(BackEnd& b, unsigned seed, int rounds) {
    std::mt19937 random{seed};
    constexpr ferry::data_type types[] = {{ferry::type_code::float_, 32},
                                          {ferry::type_code::uint, 8},
                                          {ferry::type_code::int_, 4},
                                          {ferry::type_code::float_, 64}};
    for (int i = 0; i < rounds; ++i)
        for (auto const to : everywhere)
            for (auto const from : everywhere) {
                auto const type = types[random() % 4];
                std::vector<std::int64_t> shape(1 + random() % 3);
                for (auto& n : shape) n = 1 + static_cast<std::int64_t>(random() % (shape.size() == 1 ? 9000 : 24));
                strided dst{to, shape, type, false, random}, src{from, shape, type, true, random};
                INFO(ferry::name(from.type), ":", from.id, " to ", ferry::name(to.type), ":", to.id, " seed ", seed,
                     " round ", i, " bits ", int{type.bits}, " rank ", shape.size());
                bool const on_second = to == gpu1 || (to.type != device_type::cuda && from == gpu1);
                on_device const there{on_second ? 1 : 0};
                test_stream const s;
                ferry::copy(dst.at(dst.far.data(), shape, type, to), src.at(src.far.data(), shape, type, from), b,
                            random() % 3 == 0 ? ferry::stream_token{} : s.token());
                ferry::copy(dst.at(dst.near.data(), shape, type, ferry::cpu),
                            src.at(src.near.data(), shape, type, ferry::cpu));
                auto got = dst.near;
                dst.move(got.data(), dst.far.data());
                CHECK(got == dst.near);
            }
    CHECK(left_no_error());
}

/// One copy on a closed stream, with the n-th call failing, for every n: its memory is freed at once, and the fake
/// aborts if any work of it still runs.
template <class BackEnd>
void leaves_nothing_under_way(BackEnd& b, device to, device from, std::vector<std::int64_t> const& shape,
                              std::vector<std::int64_t> const& strides, calls::failure how) {
    INFO(ferry::name(from.type), " to ", ferry::name(to.type), " failing as ", static_cast<int>(how));
    bool injected = true;
    int nth = 0;
    while (injected && nth < 200) {
        ++nth;
        CAPTURE(nth);
        test_stream const s;
        bool threw = false;
        {
            auto dst = make_poisoned(to, shape);
            auto src = make_poisoned(from, shape);
            std::optional<gate> closed{s.get()};
            src.strides = strides;
            opener const later{*closed, std::chrono::milliseconds{1}};
            calls::fail_at(nth, how);
            try {
                ferry::copy(ferry::view_of(dst), ferry::view_of(src), b, s.token());
            } catch (ferry::error const&) {
                threw = true;
            }
            injected = calls::has_failed();
            calls::fail_at(0);
            CHECK((injected || !threw));
            if (!threw) s.finish();
            if (threw) {  // pinned and managed memory that is freed under queued work is a fault, and so is that of
                          // pools
                dst.memory.reset();
                src.memory.reset();
            }
        }
        s.finish();
        CHECK(left_no_error());
    }
    CHECK(nth < 200);
}

template <class BackEnd>
void leaves_nothing_under_way(BackEnd& b) {
    for (auto const how : {calls::failure::invalid, calls::failure::unwaited, calls::failure::lost})
        for (auto const& [to, from] :
             {std::pair{pinned, gpu}, std::pair{gpu, pinned}, std::pair{gpu, ferry::cpu}, std::pair{ferry::cpu, gpu},
              std::pair{managed, gpu}, std::pair{gpu, gpu}, std::pair{pinned, managed}}) {
            leaves_nothing_under_way(b, to, from, {64, 50}, {}, how);
            leaves_nothing_under_way(b, to, from, {64, 50}, {1, 64}, how);
        }
}

struct picky {};

}  // namespace

template <>
struct ferry::array_traits<picky> {
    static tensor_view view(picky const&);
    static picky adopt(managed_tensor) { throw std::runtime_error{"not mine"}; }
};

TEST_CASE("fake: work after a gate waits, as does work ordered after it, on both devices") {
    on_device const first{0};
    test_stream const a;
    must(cudaSetDevice(1));
    test_stream const b;
    must(cudaSetDevice(0));
    gate closed{a.get()};
    cuda::order(a.token(), b.token());
    CHECK(!a.is_idle());
    CHECK(!b.is_idle());
    static_cast<void>(cudaGetLastError());
    closed.open();
    b.finish();
    CHECK(a.is_idle());
    CHECK(!closed.was_forced());
}

TEST_CASE("fake: an invalid access by a device is a fault") {
    test_stream const s, other;
    int local = 0;
    CHECK(fault_of([&] { static_cast<void>(cudaFree(&local)); }) ==
          "cudaFree of memory that is not its own, or freed before");
    CHECK(fault_of([] { static_cast<void>(cudaStreamSynchronize(nullptr)); }) == "a null stream is used");
    CHECK(fault_of([] {
              cudaStream_t gone = nullptr;
              must(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
              must(cudaStreamDestroy(gone));
              static_cast<void>(cudaStreamSynchronize(gone));
          }) == "a stream is used that is unknown, or destroyed");
    CHECK(fault_of([] {
              cudaEvent_t gone = nullptr;
              must(cudaEventCreateWithFlags(&gone, cudaEventDisableTiming));
              must(cudaEventDestroy(gone));
              static_cast<void>(cudaEventSynchronize(gone));
          }) == "an event is used that is unknown, or destroyed");
    CHECK(fault_of([&] {
              gate closed{s.get()};
              {
                  cuda::memory const m{gpu, 64, {}};
                  must(cudaMemsetAsync(m.data(), 0, 64, s.get()));
              }
              must(cudaStreamSynchronize(cudaStreamLegacy));
              closed.open();
              s.finish();
          }) == "queued work touches memory that was freed");
    CHECK(fault_of([&] {
              gate closed{s.get()};
              cuda::memory const m{gpu, 64, s.token()};
              must(cudaMemsetAsync(m.data(), 0, 64, other.get()));
              other.finish();
              closed.open();
              s.finish();
          }) == "queued work touches memory before its stream got to it");
    CHECK(fault_of([&] {
              cuda::memory const m{gpu, 64, {}};
              must(cudaMemsetAsync(m.data(), 0, 65, s.get()));
              s.finish();
          }) == "queued work runs over the end of its memory");
    static_cast<void>(cudaGetLastError());
}

TEST_CASE("fake: a stream reuses memory that it freed at once, other streams after the free has run") {
    cuda::pool const pool;
    test_stream const s, other;
    auto const take = [&](test_stream const& on) {
        void* p = nullptr;
        must(cudaMallocFromPoolAsync(&p, 4096, pool.get(), on.get()));
        return p;
    };
    void* const first = take(s);
    gate closed{s.get()};
    must(cudaFreeAsync(first, s.get()));
    void* const others = take(other);
    CHECK(others != first);
    void* const again = take(s);
    CHECK(again == first);
    must(cudaFreeAsync(again, s.get()));
    closed.open();
    s.finish();
    void* const last = take(other);
    CHECK(last == first);
    for (void* const p : {others, last}) must(cudaFreeAsync(p, other.get()));
    other.finish();
}

TEST_CASE("cuda: any layout, sub-byte and backwards ones too, between all places, by either back end and in slabs") {
    copies_everywhere(ferry::cuda::system, 1, 6);
    cuda::copier plain{small_slabs(false)}, packing{small_slabs(true)}, large;
    copies_everywhere(plain, 2, 6);
    copies_everywhere(packing, 3, 6);
    copies_everywhere(large, 4, 2);
}

TEST_CASE("cuda: after any call of a copy fails, also a wait that did not wait, no work of it is pending") {
    leaves_nothing_under_way(ferry::cuda::system);
    cuda::copier plain{small_slabs(false)}, packing{small_slabs(true)};
    leaves_nothing_under_way(plain);
    leaves_nothing_under_way(packing);
}

TEST_CASE("cuda R50: memory of a queued copy that its consumer refuses is reused only after the copy has run") {
    cuda::copier copier;
    auto const refused = [&](auto& b, device to) {
        CAPTURE(ferry::name(to.type));
        test_stream const ours, others;
        auto const array = make_array(gpu, ferry::already_ready, {1024});
        {
            auto const kept = b.allocate(to, 4096, {});
        }
        std::vector<decltype(b.allocate(to, 1, {}))> grabbed;
        {
            gate closed{ours.get()};
            opener const later{closed, std::chrono::milliseconds{20}};
            CHECK_THROWS_AS(static_cast<void>(ferry::from_dlpack<picky>(
                                array, {.device = to, .copy = ferry::copy_policy::always, .stream = ours.token()}, b)),
                            std::runtime_error);
            for (int i = 0; i < 8; ++i) {
                grabbed.push_back(b.allocate(to, 4096, others.token()));
                must(cudaMemsetAsync(grabbed.back().data(), poison, 4096, others.get()));
            }
            others.finish();
        }
        ours.finish();
        auto const untouched = read(make_poisoned(to, {1024}).first(), 1024);
        for (auto const& m : grabbed) CHECK(std::memcmp(read(m.data(), 1024).data(), untouched.data(), 4096) == 0);
    };
    refused(copier, pinned);
    refused(copier, gpu);
    refused(ferry::cuda::system, gpu);
    refused(ferry::cuda::system, pinned);
}
