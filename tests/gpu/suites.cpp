// The suites of the simulated device on a CUDA device, with both back ends.
#include <ferry/column.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <gpu/world.hpp>
#include <support/copy_suite.hpp>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace {

using namespace support;

/// A CUDA device as the World of a suite.
template <class BackEnd>
struct cuda_world {
    using array_type = gpu_array;

    static constexpr ferry::device gpu = support::gpu, other_gpu{ferry::device_type::cuda, 1}, pinned = support::pinned,
                                   managed = support::managed;
    static constexpr ferry::device everywhere[] = {gpu, pinned, managed}, far[] = {gpu};

    /// Memory whose release synchronises the device outlives the gate.
    struct closed_array {
        gpu_array array, kept;
        struct shared_gate {
            std::shared_ptr<support::gate> one;
            void open() const noexcept { one->open(); }
            [[nodiscard]] bool is_open() const noexcept { return one->is_open(); }
        } gate;
    };

    test_stream theirs_, ours_;
    ferry::stream_token theirs = theirs_.token(), ours = ours_.token();
    std::optional<test_stream> elsewhere_;
    BackEnd back_end{};

    explicit cuda_world(ferry::device = gpu) {
        // Pins memory and enables peer access now: CUDA may synchronise the device for that, which a closed gate would
        // block.
        static_cast<void>(ferry::to_host(make_array(gpu, ours, {4}), back_end));
        if (!has_other_gpu()) return;
        auto const there = ours_of(other_gpu);
        auto const met = ferry::to_dlpack(make_array(gpu, ours, {4}), {.device = other_gpu, .stream = there}, back_end);
        ferry::cuda::wait(there);
    }
    ~cuda_world() { CHECK(left_no_error()); }

    [[nodiscard]] static bool has_other_gpu() { return gpus() > 1; }
    [[nodiscard]] ferry::stream_token ours_of(ferry::device d) {
        if (d.id == 0) return ours;
        on_device const there{d.id};
        if (!elsewhere_) elsewhere_.emplace();
        return elsewhere_->token();
    }
    [[nodiscard]] closed_array closed(ferry::device where, ferry::stream_token on,
                                      std::vector<std::int64_t> shape = {2, 3}) {
        auto array = make_poisoned(where, std::move(shape), on);
        load_kernels();
        auto held = std::make_shared<gate>(handle(on));
        iota(array.first(), array.size(), handle(on));
        auto const is_waited_for = where.type != ferry::device_type::cuda;
        return {array, is_waited_for ? array : gpu_array{}, {std::move(held)}};
    }
    [[nodiscard]] opener open_later(typename closed_array::shared_gate const& g) {
        return opener{*g.one, std::chrono::milliseconds{20}};
    }
    /// CUDA may synchronise the device when it pins memory.
    [[nodiscard]] opener open_later_for_memory(typename closed_array::shared_gate const& g) { return open_later(g); }
    [[nodiscard]] static ferry::stream_token foreign_stream() { return ferry::stream_token::rocm_default(); }
    void finish(ferry::stream_token on) { ferry::cuda::wait(on); }
    [[nodiscard]] float value(ferry::tensor_view const& v, std::int64_t i) {
        return read(static_cast<float const*>(v.data()) + i, 1)[0];
    }
    template <class Function>
    void probe(Function) {}
};

/// Random copies between memory of every kind, by a back end: all of the destination's bytes are compared.
template <class BackEnd>
void copies_at_random(BackEnd& b) {
    constexpr ferry::device routes[][2] = {{gpu, gpu},    {gpu, ferry::cpu}, {ferry::cpu, gpu}, {gpu, pinned},
                                           {pinned, gpu}, {managed, gpu},    {gpu, managed},    {pinned, managed}};
    char const* const asked = std::getenv("FERRY_RANDOM_LAYOUTS");
    long const layouts = asked != nullptr ? std::atol(asked) : 600;
    test_stream const s;
    // Two for each kind, which grow.
    std::map<std::pair<int, bool>, ferry::cuda::memory> kept;
    auto const memory_for = [&](ferry::device where, bool is_source, std::size_t bytes) {
        auto& m = kept.try_emplace({static_cast<int>(where.type), is_source}, where, std::size_t{1} << 20,
                                   ferry::stream_token{})
                      .first->second;
        if (m.size() < bytes) m = ferry::cuda::memory{where, bytes, {}};
        return m.data();
    };
    auto const move = [&](void* to, void const* from, std::size_t n) {
        must(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, s.get()));
        s.finish();
    };
    for (long i = 0; i < layouts; ++i) {
        auto const& [to, from] = routes[i % static_cast<long>(std::size(routes))];
        INFO(ferry::name(from.type), " to ", ferry::name(to.type));
        copy_suite::check_one(static_cast<std::uint64_t>(i), [&](auto& dst, auto& src, auto to_at, auto from_at) {
            void* const d = memory_for(to, false, dst.bytes.size());
            void* const f = memory_for(from, true, src.bytes.size());
            move(d, dst.bytes.data(), dst.bytes.size());
            move(f, src.bytes.data(), src.bytes.size());
            ferry::copy(to_at(d, to), from_at(f, from), b, s.token());
            move(dst.bytes.data(), d, dst.bytes.size());
        });
    }
    CHECK(left_no_error());
}

using plain_world = cuda_world<ferry::cuda::system_back_end>;
using copier_world = cuda_world<ferry::cuda::copier>;

}  // namespace

TEST_CASE(
    "cuda R19, R26, R27, R28, R29: any copy equals copying element by element, and writes nothing else") {
    copies_at_random(ferry::cuda::system);
    ferry::cuda::copier plain;
    copies_at_random(plain);
    ferry::cuda::copier_options options;
    options.pack = ferry::cuda::pack;
    ferry::cuda::copier packing{options};
    copies_at_random(packing);
}

#define WORLDS plain_world, copier_world
#include <support/column_suite.hpp>
#include <support/exchange_suite.hpp>
