// Compares copies on the host with memcpy and with a hand-written loop.
// usage: bench_copy [Google Benchmark's options]; prints ratios, above 1 where ferry is faster:
// repetitions are interleaved at random and compared by the medians of their processor time
#include <benchmark/benchmark.h>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using extents = std::array<std::int64_t, 3>;

// Bytes that are in memory and not merely promised.
std::uint8_t* touched(std::size_t which, std::size_t bytes) {
    static std::vector<std::uint8_t> buffers[2];
    auto& b = buffers[which];
    if (b.size() < bytes) b.assign(bytes, 1);
    return b.data();
}

// A layout of three dimensions for both sides, strides in elements, `offset` to the source's first
// element.
struct layouts {
    ferry::data_type type;
    extents shape, dst, src;
    std::int64_t offset = 0;
    std::int64_t dst_bytes, src_bytes;
    bool dst_padded = false, src_padded = false;

    ferry::tensor_view destination(void* p) const {
        return {p, type, shape, dst, ferry::cpu, dst_padded ? ferry::flags::subbyte_padded : ferry::flags::none};
    }
    ferry::tensor_view source(std::uint8_t* p) const {
        return {p + offset * ferry::bits_per_element(type) / 8,
                type,
                shape,
                src,
                ferry::cpu,
                src_padded ? ferry::flags::subbyte_padded : ferry::flags::none};
    }
};

std::string const& keep(std::string name) {
    static std::vector<std::string*> kept;
    kept.push_back(new std::string{std::move(name)});
    return *kept.back();
}

template <class Body>
void add(std::string const& row, char const* who, Body body) {
    benchmark::RegisterBenchmark(keep(row + "/" + who).c_str(), [body](benchmark::State& state) {
        body(state);
    })->UseRealTime();
}

// One of several copies of a benchmark that differ only in where their loop lies in memory, which alone moves a copy of
// 1 KiB by a tenth: rows of small copies compare medians over all of them.
template <int Placement>
void contiguous(std::string const& label, std::int64_t bytes) {
    auto const n = static_cast<std::size_t>(bytes);
    auto const row = "contiguous " + label;
    add(row, "memcpy", [n](benchmark::State& state) {
        auto* dst = touched(0, n);
        auto* src = touched(1, n);
        asm volatile(".skip %c0, 0x90" ::"i"(7 * Placement));
        for (auto _ : state) {
            std::memcpy(dst, src, n);
            benchmark::ClobberMemory();
        }
    });
    add(row, "executed", [n, bytes](benchmark::State& state) {
        auto* dst = touched(0, n);
        auto* src = touched(1, n);
        std::int64_t const shape[] = {bytes}, strides[] = {1};
        auto const plan = ferry::make_copy_plan({dst, shape}, {src, shape, strides});
        asm volatile(".skip %c0, 0x90" ::"i"(7 * Placement));
        for (auto _ : state) {
            ferry::copy_on_host(plan, dst, src);
            benchmark::ClobberMemory();
        }
    });
    if constexpr (Placement == 0)
        add(row, "planned and executed", [n, bytes](benchmark::State& state) {
            auto* dst = touched(0, n);
            auto* src = touched(1, n);
            std::int64_t const shape[] = {bytes / 256, 16, 16};
            for (auto _ : state) {
                ferry::copy_on_host(ferry::make_copy_plan({dst, shape}, {src, shape}), dst, src);
                benchmark::ClobberMemory();
            }
        });
}

template <int... Placements>
void contiguous(std::string const& label, std::int64_t bytes, std::integer_sequence<int, Placements...>) {
    (contiguous<Placements>(label, bytes), ...);
}

template <class T>
void naive(layouts const& l, std::uint8_t* to, std::uint8_t const* from) {
    auto* const dst = reinterpret_cast<T*>(to);
    auto const* const src = reinterpret_cast<T const*>(from) + l.offset;
    for (std::int64_t i = 0; i < l.shape[0]; ++i)
        for (std::int64_t j = 0; j < l.shape[1]; ++j)
            for (std::int64_t k = 0; k < l.shape[2]; ++k)
                dst[i * l.dst[0] + j * l.dst[1] + k * l.dst[2]] = src[i * l.src[0] + j * l.src[1] + k * l.src[2]];
}

// Sub-byte elements of 4 bits, either side packed or padded.
void naive_nibbles(layouts const& l, std::uint8_t* dst, std::uint8_t const* src) {
    for (std::int64_t k = 0; k < l.shape[2]; ++k) {
        auto const s = k * l.src[2] + l.offset, d = k * l.dst[2];
        int const value = l.src_padded ? src[s] & 15 : src[s >> 1] >> (s & 1) * 4 & 15;
        if (l.dst_padded) dst[d] = static_cast<std::uint8_t>(value);
        else dst[d >> 1] = static_cast<std::uint8_t>((dst[d >> 1] & ~(15 << (d & 1) * 4)) | value << (d & 1) * 4);
    }
}

using by_hand = void (*)(layouts const&, std::uint8_t*, std::uint8_t const*);

void strided(std::string const& row, layouts l, by_hand loop) {
    auto const dst_bytes = static_cast<std::size_t>(l.dst_bytes), src_bytes = static_cast<std::size_t>(l.src_bytes);
    add(row, "memcpy", [=](benchmark::State& state) {
        auto* dst = touched(0, dst_bytes);
        auto* src = touched(1, dst_bytes > src_bytes ? dst_bytes : src_bytes);
        for (auto _ : state) {
            std::memcpy(dst, src, dst_bytes);
            benchmark::ClobberMemory();
        }
    });
    add(row, "loop", [=](benchmark::State& state) {
        auto* dst = touched(0, dst_bytes);
        auto* src = touched(1, src_bytes);
        for (auto _ : state) {
            loop(l, dst, src);
            benchmark::ClobberMemory();
        }
    });
    add(row, "executed", [=](benchmark::State& state) {
        auto* dst = touched(0, dst_bytes);
        auto const src = l.source(touched(1, src_bytes));
        auto const plan = ferry::make_copy_plan(l.destination(dst), src);
        for (auto _ : state) {
            ferry::copy_on_host(plan, dst, src.data());
            benchmark::ClobberMemory();
        }
    });
}

// Into memory that the system has yet to provide, as `contiguous()` in other libraries returns.
// NumPy asks for huge pages.
void into_fresh_memory(std::string const& row, layouts l, char const* who, bool huge) {
    add(row, who, [=](benchmark::State& state) {
        auto const src = l.source(touched(1, static_cast<std::size_t>(l.src_bytes)));
        auto const bytes = static_cast<std::size_t>(l.dst_bytes);
        for (auto _ : state) {
            void* dst = std::aligned_alloc(huge ? std::size_t{1} << 21 : 64, bytes);
            if (huge) madvise(dst, bytes, MADV_HUGEPAGE);
            ferry::copy_on_host(ferry::make_copy_plan(l.destination(dst), src), dst, src.data());
            benchmark::DoNotOptimize(dst);
            benchmark::ClobberMemory();
            std::free(dst);
        }
    });
}

layouts transposed(std::int64_t n, std::uint8_t bits, std::uint16_t lanes = 1) {
    auto const bytes = n * n * bits * lanes / 8;
    return {{ferry::type_code::uint, bits, lanes}, {1, n, n}, {0, n, 1}, {0, 1, n}, 0, bytes, bytes};
}

struct pair {
    std::uint64_t low, high;
};

void register_all() {
    struct size {
        char const* label;
        std::int64_t bytes;
    };
    for (auto const s : {size{"1 KiB", 1 << 10}, size{"16 KiB", 1 << 14}, size{"256 KiB", 1 << 18},
                         size{"4 MiB", 1 << 22}, size{"64 MiB", 1 << 26}, size{"1 GiB", 1 << 30}})
        if (s.bytes <= 1 << 14) contiguous(s.label, s.bytes, std::make_integer_sequence<int, 9>{});
        else contiguous<0>(s.label, s.bytes);

    add("plan of a contiguous 4-d copy", "planned", [](benchmark::State& state) {
        std::int64_t const shape[] = {32, 3, 224, 224};
        float x = 0;
        for (auto _ : state) {
            auto plan = ferry::make_copy_plan({&x, shape}, {&x, shape});
            benchmark::DoNotOptimize(plan.unit);
        }
    });
    add("plan of a permuted 4-d copy", "planned", [](benchmark::State& state) {
        std::int64_t const shape[] = {32, 224, 224, 3}, strides[] = {150528, 224, 1, 50176};
        float x = 0;
        for (auto _ : state) {
            auto plan = ferry::make_copy_plan({&x, shape}, {&x, shape, strides});
            benchmark::DoNotOptimize(plan.unit);
        }
    });

    strided("transpose 4096x4096, 1 byte", transposed(4096, 8), naive<std::uint8_t>);
    strided("transpose 4096x4096, 2 bytes", transposed(4096, 16), naive<std::uint16_t>);
    strided("transpose 4096x4096, 4 bytes", transposed(4096, 32), naive<std::uint32_t>);
    into_fresh_memory("transpose 4096x4096, 4 bytes", transposed(4096, 32), "fresh", false);
    into_fresh_memory("transpose 4096x4096, 4 bytes", transposed(4096, 32), "fresh, huge pages", true);
    strided("transpose 4096x4096, 8 bytes", transposed(4096, 64), naive<std::uint64_t>);
    strided("transpose 2048x2048, 16 bytes", transposed(2048, 64, 2), naive<pair>);
    strided("transpose 1000x1000, 4 bytes", transposed(1000, 32), naive<std::uint32_t>);
    strided("transpose 64x64, 4 bytes", transposed(64, 32), naive<std::uint32_t>);

    constexpr std::int64_t n = 1 << 22;
    ferry::data_type const u8{ferry::type_code::uint, 8}, u32{ferry::type_code::uint, 32},
        u4{ferry::type_code::uint, 4};
    strided("planes to pixels, 2048x2048x3, 1 byte", {u8, {1, n, 3}, {0, 3, 1}, {0, 1, n}, 0, 3 * n, 3 * n},
            naive<std::uint8_t>);
    strided("pixels to planes, 2048x2048x3, 1 byte", {u8, {1, 3, n}, {0, n, 1}, {0, 1, 3}, 0, 3 * n, 3 * n},
            naive<std::uint8_t>);
    strided("BGR to RGB, 2048x2048, 1 byte", {u8, {1, n, 3}, {0, 3, 1}, {0, 3, -1}, 2, 3 * n, 3 * n},
            naive<std::uint8_t>);
    strided("reversed, 4 Mi of 1 byte", {u8, {1, 1, n}, {0, 0, 1}, {0, 0, -1}, n - 1, n, n}, naive<std::uint8_t>);
    strided("reversed, 4 Mi of 4 bytes", {u32, {1, 1, n}, {0, 0, 1}, {0, 0, -1}, n - 1, 4 * n, 4 * n},
            naive<std::uint32_t>);
    strided("every second, 4 Mi of 4 bytes", {u32, {1, 1, n}, {0, 0, 1}, {0, 0, 2}, 0, 4 * n, 8 * n},
            naive<std::uint32_t>);
    strided("cropped, 2048x2048 of 4 bytes from 2056 wide",
            {u32, {1, 2048, 2048}, {0, 2048, 1}, {0, 2056, 1}, 0, 4 * n, 4 * 2048 * 2056}, naive<std::uint32_t>);
    strided("cropped, 1 Mi rows of 3 from 4, 4 bytes", {u32, {1, n / 4, 3}, {0, 3, 1}, {0, 4, 1}, 0, 3 * n, 4 * n},
            naive<std::uint32_t>);
    strided("column repeated, 2048x2048 of 4 bytes",
            {u32, {1, 2048, 2048}, {0, 2048, 1}, {0, 1, 0}, 0, 4 * n, 4 * 2048}, naive<std::uint32_t>);
    strided("strided row repeated, 2048x2048 of 4 bytes",
            {u32, {1, 2048, 2048}, {0, 2048, 1}, {0, 0, 2}, 0, 4 * n, 8 * 2048}, naive<std::uint32_t>);
    strided("4 bits unpacked, 4 Mi", {u4, {1, 1, n}, {0, 0, 1}, {0, 0, 1}, 0, n, n / 2, true, false}, naive_nibbles);
    strided("4 bits packed, 4 Mi", {u4, {1, 1, n}, {0, 0, 1}, {0, 0, 1}, 0, n / 2, n, false, true}, naive_nibbles);
}

// Prints Google Benchmark's own table, then each row of ferry's against its peers.
class ratios : public benchmark::ConsoleReporter {
   public:
    void ReportRuns(std::vector<Run> const& runs) override {
        ConsoleReporter::ReportRuns(runs);
        for (auto const& run : runs) {
            if (run.error_occurred || (run.run_type == Run::RT_Aggregate) != (run.repetitions > 1) ||
                (run.run_type == Run::RT_Aggregate && run.aggregate_name != "median"))
                continue;
            auto const name = run.run_name.function_name;
            auto const slash = name.find('/');
            times_[name.substr(0, slash)][name.substr(slash + 1)].push_back(
                run.GetAdjustedCPUTime() / benchmark::GetTimeUnitMultiplier(run.time_unit));
        }
    }
    void Finalize() override {
        std::printf("\nratio\tours (us)\tpeer (us)\trow\n");
        for (auto& [row, times] : times_)
            for (auto const* ours : {"executed", "planned and executed"})
                for (auto const* peer : {"memcpy", "loop"}) {
                    if (times.count(ours) == 0 || times.count(peer) == 0) continue;
                    double const mine = median(times.at(ours)), theirs = median(times.at(peer));
                    std::printf("%.3f\t%.4g\t%.4g\t%s: %s, against %s\n", theirs / mine, mine * 1e6, theirs * 1e6,
                                row.c_str(), ours, peer);
                }
    }

   private:
    static double median(std::vector<double>& times) {
        auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
        std::nth_element(times.begin(), middle, times.end());
        return *middle;
    }
    std::map<std::string, std::map<std::string, std::vector<double>>> times_;  // a median per placement
};

}  // namespace

int main(int argc, char** argv) {
    // Defaults first, so that the caller's options win.
    std::vector<std::string> defaults{argv[0], "--benchmark_repetitions=11", "--benchmark_min_time=0.02",
                                      "--benchmark_enable_random_interleaving=true",
                                      "--benchmark_report_aggregates_only=true"};
    std::vector<char*> arguments;
    for (auto& text : defaults) arguments.push_back(text.data());
    for (int i = 1; i < argc; ++i) arguments.push_back(argv[i]);
    int count = static_cast<int>(arguments.size());
    benchmark::Initialize(&count, arguments.data());
    register_all();
    ratios reporter;
    benchmark::RunSpecifiedBenchmarks(&reporter);
}
