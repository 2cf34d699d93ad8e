// CUDA copies against the runtime's own, measured by turns in one run: prints each budget of the design with its ratio.
//
//   bench [--out FOLDER] [--max BYTES] [--seconds PER_ROW]
#include <ferry/cuda.hpp>
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace cuda = ferry::cuda;
using ferry::cuda::check;
using job = std::function<void()>;

constexpr std::size_t kib = 1024, mib = kib * kib, gib = kib * mib;
constexpr ferry::device gpu{ferry::device_type::cuda}, pinned{ferry::device_type::cuda_host};

double seconds_per_row = 1.5;
bool all_hold = true;
std::vector<std::string> json;

std::string size_name(std::size_t n) {
    char text[32];
    if (n >= gib) std::snprintf(text, sizeof text, "%g GiB", static_cast<double>(n) / static_cast<double>(gib));
    else if (n >= mib) std::snprintf(text, sizeof text, "%g MiB", static_cast<double>(n) / static_cast<double>(mib));
    else std::snprintf(text, sizeof text, "%g KiB", static_cast<double>(n) / static_cast<double>(kib));
    return text;
}

double time_of(job const& f, int times) {
    auto const start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
}

/// Seconds of each job: medians over rounds in which each has its turn. Short ones are repeated.
std::vector<double> measure(std::vector<job> const& jobs) {
    std::vector<std::vector<double>> times(jobs.size());
    std::vector<int> repeat(jobs.size(), 1);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        time_of(jobs[i], 1);
        double const again = time_of(jobs[i], 1);
        if (again < 20e-6) repeat[i] = static_cast<int>(100e-6 / (again + 1e-7)) + 1;
    }
    auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_per_row);
    for (int round = 0; round < 3 || (round < 301 && std::chrono::steady_clock::now() < end); ++round)
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            std::size_t const turn = (i + static_cast<std::size_t>(round)) % jobs.size();
            times[turn].push_back(time_of(jobs[turn], repeat[turn]));
        }
    std::vector<double> medians;
    for (auto& t : times) {
        std::nth_element(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(t.size() / 2), t.end());
        medians.push_back(t[t.size() / 2]);
    }
    return medians;
}

/// A row: ratio is a speed ratio (peer's time / ours) unless `of_times`, when it is ours / peer's.
void row(char const* what, std::size_t bytes, double ours, char const* peer_name, double peer, double budget,
         bool of_times = false) {
    double const ratio = of_times ? ours / peer : peer / ours;
    bool const bound = budget > 0, holds = !bound || (of_times ? ratio <= budget : ratio >= budget);
    if (!holds) all_hold = false;
    double const rate = static_cast<double>(bytes) / ours * 1e-9;
    char budget_text[32] = "";
    if (bound) std::snprintf(budget_text, sizeof budget_text, "%s %.2f", of_times ? "<=" : ">=", budget);
    std::printf("%-44s %10s %12.2f us %7.2f GB/s   %-28s %7.3f  %-8s %s\n", what,
                bytes != 0 ? size_name(bytes).c_str() : "", ours * 1e6, rate, peer_name, ratio, budget_text,
                bound ? (holds ? "yes" : "NO") : "");
    std::fflush(stdout);
    char text[512];
    std::snprintf(
        text, sizeof text,
        R"({"what": "%s", "bytes": %zu, "seconds": %.9g, "peer": "%s", "peer_seconds": %.9g, "ratio": %.5g, "budget": %.3g, "of_times": %s, "holds": %s})",
        what, bytes, ours, peer_name, peer, ratio, budget, of_times ? "true" : "false", holds ? "true" : "false");
    json.emplace_back(text);
}

ferry::tensor_view flat(void* p, std::int64_t const& n, ferry::device where) {
    return {p, ferry::data_type{ferry::type_code::uint, 8}, ferry::shape_view{&n, 1}, {}, where};
}

void bench_handshake(cudaStream_t a, cudaStream_t b) {
    cudaEvent_t e = nullptr;
    check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    auto const first = ferry::stream_token::cuda(a), second = ferry::stream_token::cuda(b);
    auto const t = measure({[&] { cuda::order(first, second); },
                            [&] {
                                check(cudaEventRecord(e, a), "cudaEventRecord");
                                check(cudaStreamWaitEvent(b, e, 0), "cudaStreamWaitEvent");
                            },
                            [&] { cuda::order(first, first); }});
    row("handshake, different streams", 0, t[0], "event record + wait", t[1], 1.2, true);
    row("handshake, same stream", 0, t[2], "event record + wait", t[1], 0, true);
    check(cudaStreamSynchronize(b), "cudaStreamSynchronize");
    check(cudaEventDestroy(e), "cudaEventDestroy");
}

struct world {
    cudaStream_t s;
    ferry::stream_token on;
    void* device;
    void* pinned_memory;
    void* touched;
    std::size_t most;
};

void link_now(world const& w, void* host, std::size_t n) {
    check(cudaMemcpyAsync(host, w.device, n, cudaMemcpyDeviceToHost, w.s), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(w.s), "cudaStreamSynchronize");
}

void bench_down(world const& w, cuda::copier& copier, std::size_t bytes) {
    std::int64_t const n = static_cast<std::int64_t>(bytes);
    auto const src = flat(w.device, n, gpu);
    auto const link = [&] { link_now(w, w.pinned_memory, bytes); };
    auto const t =
        measure({[&] { ferry::copy(flat(w.touched, n, ferry::cpu), src, copier, w.on); },
                 [&] { check(cudaMemcpy(w.touched, w.device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy"); }, link,
                 [&] { ferry::copy(flat(w.pinned_memory, n, pinned), src, copier, w.on); },
                 [&] {
                     auto const m = copier.allocate(pinned, bytes <= 256 * mib ? bytes : 1, w.on);
                     if (bytes <= 256 * mib) ferry::copy(flat(m.data(), n, pinned), src, copier, w.on);
                 }});
    row("device to host, touched pageable", bytes, t[0], "cudaMemcpy", t[1],
        bytes <= mib         ? 1.0
        : bytes >= 256 * mib ? 2.8
        : bytes >= 16 * mib  ? 1.6
                             : 0);
    row("device to host, touched pageable", bytes, t[0], "pinned link", t[2], bytes >= 256 * mib ? 0.88 : 0);
    row("device to host, pinned", bytes, t[3], "pinned link", t[2], bytes >= 16 * mib ? 0.95 : 0);
    if (bytes <= 256 * mib)
        row("device to host, pinned from the copier", bytes, t[4], "pinned link", t[2], bytes >= 16 * mib ? 0.95 : 0);
}

void bench_fresh(world const& w, cuda::copier& eight, cuda::copier& sixteen, std::size_t bytes) {
    std::int64_t const n = static_cast<std::int64_t>(bytes);
    auto const to_host = [&](cuda::copier& copier) {
        auto const tensor = ferry::to_host(ferry::make_managed(int{}, flat(w.device, n, gpu)), copier, w.on);
        if (tensor.view().data() == nullptr) std::abort();
    };
    bool const large = bytes >= 256 * mib;
    auto const t =
        measure({[&] { to_host(eight); }, [&] { to_host(sixteen); }, [&] { link_now(w, w.pinned_memory, bytes); },
                 [&] {
                     if (bytes > gib) return;
                     void* const p = std::malloc(bytes);
                     check(cudaMemcpy(p, w.device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
                     std::free(p);
                 }});
    row("to_host, fresh memory, 8 lanes", bytes, t[0], "pinned link", t[2], large ? 0.5 : 0);
    row("to_host, fresh memory, 16 lanes", bytes, t[1], "pinned link", t[2],
        large && std::thread::hardware_concurrency() >= 16 ? 0.65 : 0);
    if (bytes <= gib) row("to_host, fresh memory, 8 lanes", bytes, t[0], "malloc + cudaMemcpy", t[3], 0);
}

void bench_up(world const& w, cuda::copier& copier, std::size_t bytes) {
    std::int64_t const n = static_cast<std::int64_t>(bytes);
    auto const t = measure({[&] { ferry::copy(flat(w.device, n, gpu), flat(w.touched, n, ferry::cpu), copier, w.on); },
                            [&] {
                                check(cudaMemcpy(w.device, w.touched, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
                                check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
                            }});
    row("host to device, pageable", bytes, t[0], "cudaMemcpy", t[1], bytes >= 256 * mib ? 4 : 0);
}

void bench_strided(world const& w, cuda::copier& packing, std::size_t bytes) {
    auto const side = static_cast<std::int64_t>(bytes / 4 / 16384);
    std::int64_t const shape[] = {side, 16384}, strides[] = {1, side};
    ferry::data_type const f32{ferry::type_code::float_, 32};
    ferry::tensor_view const src{w.device, f32, shape, strides, gpu}, dst{w.pinned_memory, f32, shape, {}, pinned},
        loose{w.touched, f32, shape, {}, ferry::cpu};
    auto const t = measure({[&] { ferry::copy(dst, src, packing, w.on); }, [&] { link_now(w, w.pinned_memory, bytes); },
                            [&] { ferry::copy(loose, src, packing, w.on); }});
    row("transposed, device to pinned", bytes, t[0], "contiguous, same bytes", t[1], 1.06, true);
    row("transposed, device to touched pageable", bytes, t[2], "contiguous, same bytes", t[1], 0, true);
}

void bench_pieces(world const& w, cuda::copier& copier) {
    constexpr std::int64_t count = 1000, size = 4096, pitch = 3 * 4096;
    std::int64_t const shape[] = {count, size}, strides[] = {pitch, 1};
    ferry::data_type const u8{ferry::type_code::uint, 8};
    ferry::tensor_view const src{w.device, u8, shape, strides, gpu}, dst{w.pinned_memory, u8, shape, {}, pinned};
    auto const wait = [&] { check(cudaStreamSynchronize(w.s), "cudaStreamSynchronize"); };
    auto* const to = static_cast<std::byte*>(w.pinned_memory);
    auto const* const from = static_cast<std::byte const*>(w.device);
    std::vector<cuda::piece> pieces;
    for (std::size_t i = 0; i < count; ++i) pieces.push_back({to + i * size, from + (i * 7919 % count) * pitch, size});
    auto const t =
        measure({[&] { ferry::copy(dst, src, copier, w.on); },
                 [&] {
                     check(cudaMemcpy2DAsync(to, size, from, pitch, size, count, cudaMemcpyDeviceToHost, w.s),
                           "cudaMemcpy2DAsync");
                     wait();
                 },
                 [&] {
                     cuda::copy_batch(pieces, w.on);
                     wait();
                 },
                 [&] {
                     cuda::pack_pieces(pieces, w.s);
                     wait();
                 },
                 [&] {
                     for (auto const& p : pieces)
                         check(cudaMemcpyAsync(p.dst, p.src, p.bytes, cudaMemcpyDeviceToHost, w.s), "cudaMemcpyAsync");
                     wait();
                 }});
    row("1000 x 4 KiB, evenly spaced", count * size, t[0], "one pitched copy", t[1], 1.3, true);
    row("1000 x 4 KiB, scattered, by a kernel", count * size, t[3], "a loop of cudaMemcpyAsync", t[4], 3.5);
    row("1000 x 4 KiB, scattered, one batch", count * size, t[2], "a loop of cudaMemcpyAsync", t[4], 0);
}

void bench_peers(world const& w, cuda::copier& copier, std::size_t bytes) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (count < 2) {
        std::printf("peer copy: skipped, one GPU\n");
        return;
    }
    ferry::device const second{ferry::device_type::cuda, 1};
    cuda::memory const there{second, bytes, {}};
    std::int64_t const n = static_cast<std::int64_t>(bytes);
    ferry::copy(flat(there.data(), n, second), flat(w.device, n, gpu), copier, w.on);  // enables both
    auto const t =
        measure({[&] { ferry::copy(flat(there.data(), n, second), flat(w.device, n, gpu), copier, w.on); },
                 [&] {
                     check(cudaMemcpyPeerAsync(there.data(), 1, w.device, 0, bytes, w.s), "cudaMemcpyPeerAsync");
                     check(cudaStreamSynchronize(w.s), "cudaStreamSynchronize");
                 }});
    row("peer copy", bytes, t[0], "cudaMemcpyPeer, enabled", t[1], 0.95);
}

void write_json(std::string const& folder) {
    auto const path = folder + "/cuda.json";
    auto* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) {
        std::perror(path.c_str());
        std::exit(2);
    }
    std::fputs("[\n", file);
    for (std::size_t i = 0; i < json.size(); ++i)
        std::fprintf(file, "  %s%s\n", json[i].c_str(), i + 1 < json.size() ? "," : "");
    std::fputs("]\n", file);
    std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
    std::string out;
    std::size_t most = 4 * gib;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::strcmp(argv[i], "--out") == 0) out = argv[i + 1];
        else if (std::strcmp(argv[i], "--max") == 0) most = std::strtoull(argv[i + 1], nullptr, 10);
        else if (std::strcmp(argv[i], "--seconds") == 0) seconds_per_row = std::strtod(argv[i + 1], nullptr);
    }
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("SKIPPED: no CUDA device here\n");
        return 77;
    }
    if (most < 32 * mib) most = 32 * mib;
    try {
        cuda::stream const first{0}, second{0};
        world w{first.get(), first, nullptr, nullptr, nullptr, most};
        cuda::memory const device{gpu, most, {}}, locked{pinned, most, {}};
        w.device = device.data();
        w.pinned_memory = locked.data();
        w.touched = std::aligned_alloc(4096, most);
        if (w.touched == nullptr) return 2;
        std::memset(w.touched, 1, most);  // small pages, as a program's own memory has
        std::memset(w.pinned_memory, 1, most);
        check(cudaMemset(w.device, 1, most), "cudaMemset");
        check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");

        cuda::copier_options options;
        options.lanes = 8;
        options.most_kept = 512 * mib;
        cuda::copier eight{options};
        options.lanes = 16;
        cuda::copier sixteen{options};
        options.lanes = 8;
        options.pack = cuda::pack;
        cuda::copier packing{options};

        std::printf("%-44s %10s %15s %12s   %-28s %7s  %-8s %s\n", "what", "bytes", "time", "rate", "against", "ratio",
                    "budget", "holds");
        bench_handshake(first.get(), second.get());
        for (auto const n : {4 * kib, 64 * kib, mib, 4 * mib, 16 * mib, 64 * mib, 256 * mib, gib, 4 * gib})
            if (n <= most) bench_down(w, eight, n);
        for (auto const n : {4 * mib, 64 * mib, 256 * mib, gib})
            if (n <= most) bench_fresh(w, eight, sixteen, n);
        for (auto const n : {64 * kib, mib, 16 * mib, 256 * mib, gib})
            if (n <= most) bench_up(w, eight, n);
        bench_strided(w, packing, std::min(most, gib));
        bench_pieces(w, eight);
        bench_peers(w, eight, std::min(most, gib));
        std::free(w.touched);
    } catch (ferry::error const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
    if (!out.empty()) write_json(out);
    std::printf(all_hold ? "all budgets hold\n" : "SOME BUDGETS DO NOT HOLD\n");
    return all_hold ? 0 : 1;
}
