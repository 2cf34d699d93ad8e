// Compares CUDA copies of ferry with those of the runtime, in turns in one run: sizes by kinds of host memory, layouts
// and directions, the methods to pack, and the ratio for each budget.
//
//   bench [--goals] [--out FOLDER] [--max BYTES] [--seconds PER_GROUP]
#include <ferry/cuda.hpp>
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/attach_column.hpp>

#include "exporter.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef FERRY_BENCH_COMPILED
/// The kernels that nvcc compiles into the program: pack.cu.
void pack_of_the_program(ferry::copy_plan const&, void*, void const*, ferry::cuda::stream_ref);
#endif

namespace {

namespace cuda = ferry::cuda;

/// Owner of memory that outlives its tensors.
struct no_owner {};

using ferry::cuda::check;
using job = std::function<void()>;

constexpr std::size_t kib = 1024, mib = kib * kib, gib = kib * mib;
constexpr ferry::device gpu{ferry::device_type::cuda}, pinned{ferry::device_type::cuda_host},
    managed{ferry::device_type::cuda_managed};

double seconds_per_group = 0.4;
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

double quantile(std::vector<double> v, double at) {
    auto const i = static_cast<std::ptrdiff_t>(at * static_cast<double>(v.size() - 1) + 0.5);
    std::nth_element(v.begin(), v.begin() + i, v.end());
    return v[static_cast<std::size_t>(i)];
}

/// Seconds of a job, one for each round.
struct samples {
    std::vector<double> each;
    [[nodiscard]] double median() const { return quantile(each, 0.5); }
};

/// Every job has its turn in each round, of which there are at least so many; short ones are repeated. The first calls,
/// in which kernels are loaded and memory is pinned, do not count, and neither does `after`, which follows each turn.
std::vector<samples> measure(std::vector<job> const& jobs, int least_rounds = 3, job const& after = [] {}) {
    std::vector<samples> found(jobs.size());
    std::vector<int> repeat(jobs.size(), 1);
    auto const turn_of = [&](job const& f, int times) {
        double const seconds = time_of(f, times);
        after();
        return seconds;
    };
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (turn_of(jobs[i], 1) > 0.2) continue;
        double const again = turn_of(jobs[i], 1);
        if (again < 20e-6) repeat[i] = static_cast<int>(100e-6 / (again + 1e-7)) + 1;
    }
    auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_per_group);
    for (int round = 0; round < least_rounds || (round < 301 && std::chrono::steady_clock::now() < end); ++round)
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            std::size_t const turn = (i + static_cast<std::size_t>(round)) % jobs.size();
            found[turn].each.push_back(turn_of(jobs[turn], repeat[turn]));
        }
    return found;
}

/// What a row is about; `kind`, `layout` and `way` place it in the matrix.
struct subject {
    char const* table;
    std::string what;
    std::size_t bytes = 0;
    char const *kind = "", *layout = "", *way = "";
};

/// A row: ratio is the peer's time / ours, its median and quartiles over the rounds, each of which measures both. The
/// budget is the least ratio, or with `of_times` the most that ours / the peer's may be.
void row(subject const& of, samples const& ours, char const* peer_name, samples const& peer, double budget = 0,
         bool of_times = false) {
    double const mine = ours.median(), theirs = peer.median();
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.each.size(); ++i) ratios.push_back(peer.each[i] / ours.each[i]);
    double const ratio = quantile(ratios, 0.5), low = quantile(ratios, 0.25), high = quantile(ratios, 0.75);
    bool const bound = budget > 0, holds = !bound || (of_times ? 1 / ratio <= budget : ratio >= budget);
    if (!holds) all_hold = false;
    double const rate = static_cast<double>(of.bytes) / mine * 1e-9;
    char budget_text[32] = "";
    if (bound) std::snprintf(budget_text, sizeof budget_text, "%s %.2f", of_times ? "time <=" : ">=", budget);
    std::printf("%-52s %8s %12.2f us %7.2f GB/s  %-28s %8.3f (%.3f-%.3f)  %-8s %s\n", of.what.c_str(),
                of.bytes != 0 ? size_name(of.bytes).c_str() : "", mine * 1e6, rate, peer_name, ratio, low, high,
                budget_text, bound ? (holds ? "yes" : "NO") : "");
    std::fflush(stdout);
    char text[768];
    std::snprintf(
        text, sizeof text,
        R"({"table": "%s", "what": "%s", "kind": "%s", "layout": "%s", "way": "%s", "bytes": %zu, "seconds": %.9g, "peer": "%s", "peer_seconds": %.9g, "ratio": %.5g, "low": %.5g, "high": %.5g, "rounds": %zu, "budget": %.3g, "of_times": %s, "holds": %s})",
        of.table, of.what.c_str(), of.kind, of.layout, of.way, of.bytes, mine, peer_name, theirs, ratio, low, high,
        ours.each.size(), budget, of_times ? "true" : "false", holds ? "true" : "false");
    json.emplace_back(text);
}

struct world {
    cudaStream_t s;
    ferry::stream_token on;
    void *device, *pinned_memory, *touched, *managed_memory;
};

/// A block of bytes, or as many in another order: on the host they are always compact.
enum class layout { contiguous, transposed, pieces };
constexpr char const* names[] = {"contiguous", "transposed", "pieces"};

struct arrangement {
    layout how;
    std::size_t bytes;
    std::int64_t shape[2] = {}, strides[2] = {};
    ferry::data_type type{ferry::type_code::uint, 8};
    int rank = 2;

    arrangement(layout l, std::size_t n) : how{l}, bytes{n} {
        auto const size = static_cast<std::int64_t>(n);
        if (l == layout::contiguous) {
            rank = 1;
            shape[0] = size, strides[0] = 1;
        } else if (l == layout::transposed) {  // floats, as nearly square as powers of two can be
            type = {ferry::type_code::float_, 32};
            std::int64_t columns = 1;
            while (4 * columns * columns < size) columns *= 2;
            shape[0] = size / 4 / columns, shape[1] = columns;
            strides[0] = 1, strides[1] = shape[0];
        } else {  // of 4 KiB where there are many, each followed by a gap of its size
            std::int64_t const piece = std::min<std::int64_t>(4096, size / 16);
            shape[0] = size / piece, shape[1] = piece;
            strides[0] = 2 * piece, strides[1] = 1;
        }
    }
    [[nodiscard]] ferry::tensor_view on_device(void* p) const {
        return {p, type, ferry::shape_view{shape, rank}, ferry::strides_view{strides, rank}, gpu};
    }
    [[nodiscard]] ferry::tensor_view on_host(void* p, ferry::device where) const {
        return {p, type, ferry::shape_view{shape, rank}, {}, where};
    }
};

ferry::tensor_view flat(void* p, std::int64_t const& n, ferry::device where) {
    return {p, ferry::data_type{ferry::type_code::uint, 8}, ferry::shape_view{&n, 1}, {}, where};
}

/// The plain call that comes nearest: for pieces a pitched copy, else the copy of a block of as many bytes. It waits.
void plain(world const& w, arrangement const& a, void* host, bool down) {
    if (a.how == layout::pieces) {
        auto const width = static_cast<std::size_t>(a.shape[1]), height = static_cast<std::size_t>(a.shape[0]);
        if (down)
            check(cudaMemcpy2DAsync(host, width, w.device, 2 * width, width, height, cudaMemcpyDefault, w.s),
                  "cudaMemcpy2DAsync");
        else
            check(cudaMemcpy2DAsync(w.device, 2 * width, host, width, width, height, cudaMemcpyDefault, w.s),
                  "cudaMemcpy2DAsync");
    } else if (host == w.pinned_memory || host == w.managed_memory) {
        check(cudaMemcpyAsync(down ? host : w.device, down ? w.device : host, a.bytes, cudaMemcpyDefault, w.s),
              "cudaMemcpyAsync");
    } else {
        check(cudaMemcpy(down ? host : w.device, down ? w.device : host, a.bytes,
                         down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice),
              "cudaMemcpy");
        check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
        return;
    }
    check(cudaStreamSynchronize(w.s), "cudaStreamSynchronize");
}

char const* plain_name(layout l, char const* kind) {
    if (l == layout::pieces) return std::strcmp(kind, "fresh") == 0 ? "malloc + cudaMemcpy2D" : "cudaMemcpy2D";
    if (std::strcmp(kind, "pinned") == 0) return "pinned link";
    return std::strcmp(kind, "fresh") == 0 ? "malloc + cudaMemcpy" : "cudaMemcpy";
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
    row({"budget", "handshake, different streams"}, t[0], "event record + wait", t[1], 1.2, true);
    row({"budget", "handshake, same stream"}, t[2], "event record + wait", t[1], 0, true);
    check(cudaStreamSynchronize(b), "cudaStreamSynchronize");
    check(cudaEventDestroy(e), "cudaEventDestroy");
}

/// To every kind of host memory; the budgets are those of contiguous copies.
void bench_down(world const& w, cuda::copier& eight, cuda::copier& sixteen, layout l, std::size_t bytes) {
    arrangement const a{l, bytes};
    auto const src = a.on_device(w.device);
    auto const to = [&](void* host, ferry::device where) {
        return job{[&w, &a, &eight, src, host, where] { ferry::copy(a.on_host(host, where), src, eight, w.on); }};
    };
    auto const peer = [&](void* host) { return job{[&w, &a, host] { plain(w, a, host, true); }}; };
    // Fresh memory: until the data is there. Whoever asked for it lets it go in their own time.
    std::optional<ferry::managed_tensor> kept;
    void* block = nullptr;
    auto const let_go = [&] {
        kept.reset();
        std::free(std::exchange(block, nullptr));
    };
    auto const fresh = [&](cuda::copier& copier) {
        return job{[&w, &copier, &kept, src] {
            kept.reset();
            kept = ferry::to_host(ferry::make_managed(no_owner{}, src), copier, w.on);
        }};
    };
    bool const is_block = l == layout::contiguous;
    std::vector<job> jobs{to(w.pinned_memory, pinned),   peer(w.pinned_memory),
                          to(w.touched, ferry::cpu),     peer(w.touched),
                          to(w.managed_memory, managed), peer(w.managed_memory)};
    std::size_t own_at = 0;
    if (is_block && bytes <= 256 * mib) {
        own_at = jobs.size();
        jobs.push_back([&w, &a, &eight, src] {
            auto const m = eight.allocate(pinned, a.bytes, w.on);
            ferry::copy(a.on_host(m.data(), pinned), src, eight, w.on);
        });
    }
    std::size_t const link_at = l == layout::pieces ? jobs.size() : 1;
    if (l == layout::pieces)
        jobs.push_back([&w, &a] { plain(w, {layout::contiguous, a.bytes}, w.pinned_memory, true); });
    auto const t = measure(jobs);
    // Beside the link, which the budgets go by; the plain call takes seconds for GiB.
    std::vector<job> fresh_jobs{fresh(eight),
                                [&w, &a, &block] {
                                    std::free(block);
                                    block = std::malloc(a.bytes);
                                    plain(w, a, block, true);
                                },
                                peer(w.pinned_memory)};
    if (is_block) {
        fresh_jobs.push_back(fresh(sixteen));
        fresh_jobs.push_back([&, to_fresh = fresh(eight)] { to_fresh(), let_go(); });
    }
    auto const f = measure(fresh_jobs, bytes > gib ? 2 : 3, let_go);

    auto const cell = [&](char const* kind, samples const& ours, samples const& theirs) {
        std::string const what = std::string{"down, "} + names[static_cast<int>(l)] + ", " + kind;
        row({"matrix", what, bytes, kind, names[static_cast<int>(l)], "down"}, ours, plain_name(l, kind), theirs);
    };
    cell("pinned", t[0], t[1]);
    cell("touched", t[2], t[3]);
    cell("managed", t[4], t[5]);
    cell("fresh", f[0], f[1]);
    if (is_block) {
        bool const large = bytes >= 256 * mib;
        row({"budget", "device to host, touched pageable", bytes}, t[2], "cudaMemcpy", t[3],
            bytes <= mib        ? 1.0
            : large             ? 2.8
            : bytes >= 16 * mib ? 1.6
                                : 0);
        row({"budget", "device to host, touched pageable", bytes}, t[2], "pinned link", t[1], large ? 0.88 : 0);
        row({"budget", "device to host, pinned", bytes}, t[0], "pinned link", t[1], bytes >= 16 * mib ? 0.95 : 0);
        if (own_at != 0)
            row({"budget", "device to host, pinned from the copier", bytes}, t[own_at], "pinned link", t[1],
                bytes >= 16 * mib ? 0.95 : 0);
        row({"budget", "to_host, fresh memory, 8 lanes", bytes}, f[0], "pinned link", f[2], large ? 0.5 : 0);
        row({"budget", "to_host, fresh memory, 16 lanes", bytes}, f[3], "pinned link", f[2],
            large && std::thread::hardware_concurrency() >= 16 ? 0.65 : 0);
        row({"budget", "to_host, fresh memory, 8 lanes", bytes}, f[0], "malloc + cudaMemcpy", f[1]);
        if (large) row({"budget", "to_host and release, fresh memory, 8 lanes", bytes}, f[4], "pinned link", f[2]);
    } else if (bytes >= 256 * mib) {
        std::string const what = std::string{names[static_cast<int>(l)]} + ", device to pinned";
        row({"budget", what, bytes}, t[0], "contiguous, same bytes", t[link_at], bytes >= gib ? 1.06 : 0, true);
    }
}

/// From every kind of host memory but fresh, which nobody has written.
void bench_up(world const& w, cuda::copier& copier, layout l, std::size_t bytes) {
    arrangement const a{l, bytes};
    auto const dst = a.on_device(w.device);
    auto const from = [&](void* host, ferry::device where) {
        return job{[&w, &a, &copier, dst, host, where] { ferry::copy(dst, a.on_host(host, where), copier, w.on); }};
    };
    auto const peer = [&](void* host) { return job{[&w, &a, host] { plain(w, a, host, false); }}; };
    auto const t = measure({from(w.pinned_memory, pinned), peer(w.pinned_memory), from(w.touched, ferry::cpu),
                            peer(w.touched), from(w.managed_memory, managed), peer(w.managed_memory)});
    char const* const kinds[] = {"pinned", "touched", "managed"};
    for (std::size_t i = 0; 2 * i < t.size(); ++i) {
        std::string const what = std::string{"up, "} + names[static_cast<int>(l)] + ", " + kinds[i];
        row({"matrix", what, bytes, kinds[i], names[static_cast<int>(l)], "up"}, t[2 * i], plain_name(l, kinds[i]),
            t[2 * i + 1]);
    }
    if (l == layout::contiguous)
        row({"budget", "host to device, pageable", bytes}, t[2], "cudaMemcpy", t[3], bytes >= 256 * mib ? 4 : 0);
}

/// The ways in which a copier can put a strided tensor in order: by kernels that travel as PTX, by the same compiled
/// in, and by what is left to a program that has neither, pitched copies and loops on the host.
void bench_ways(world const& w, cuda::copier_options options, layout l, std::size_t bytes) {
    arrangement const a{l, bytes};
    auto const src = a.on_device(w.device);
    options.pack = nullptr;
    cuda::copier without{options};
    options.pack = cuda::pack;
    cuda::copier ptx{options};
    std::vector<cuda::copier*> copiers{&without, &ptx};
#ifdef FERRY_BENCH_COMPILED
    options.pack = pack_of_the_program;
    cuda::copier compiled{options};
    copiers.push_back(&compiled);
#endif
    char const* const ways[] = {"without kernels", "kernels as PTX", "kernels compiled in"};
    std::vector<job> jobs{[&] { plain(w, {layout::contiguous, bytes}, w.pinned_memory, true); }};
    for (auto* const copier : copiers)
        jobs.push_back([&, copier] { ferry::copy(a.on_host(w.pinned_memory, pinned), src, *copier, w.on); });
    auto const t = measure(jobs);
    for (std::size_t i = 0; i < copiers.size(); ++i) {
        std::string const what = std::string{"device to pinned, "} + names[static_cast<int>(l)] + ", " + ways[i];
        row({"ways", what, bytes, "pinned", names[static_cast<int>(l)], ways[i]}, t[i + 1], "contiguous, same bytes",
            t[0], 0, true);
    }
}

/// A tensor on the device in another order than that of its memory, from element `first`.
struct strided {
    char const* what;
    ferry::data_type type;
    std::vector<std::int64_t> shape, strides;
    std::int64_t first = 0;
    double budget = 0.92;

    [[nodiscard]] std::size_t bytes() const {
        std::size_t n = type.bits / 8u;
        for (auto const extent : shape) n *= static_cast<std::size_t>(extent);
        return n;
    }
    [[nodiscard]] ferry::tensor_view on_device(void* p) const {
        return {static_cast<std::byte*>(p) + first * (type.bits / 8), type,
                ferry::shape_view{shape.data(), static_cast<int>(shape.size())},
                ferry::strides_view{strides.data(), static_cast<int>(strides.size())}, gpu};
    }
    [[nodiscard]] ferry::tensor_view on_host(void* p) const {
        return {p, type, ferry::shape_view{shape.data(), static_cast<int>(shape.size())}, {}, ferry::cpu};
    }
};

std::vector<strided> strided_layouts() {
    ferry::data_type const u8{ferry::type_code::uint, 8}, u16{ferry::type_code::uint, 16},
        f16{ferry::type_code::float_, 16}, f32{ferry::type_code::float_, 32}, f64{ferry::type_code::float_, 64};
    return {{"u8 NCHW to NHWC", u8, {66, 1002, 1002, 3}, {3012012, 1002, 1, 1004004}},
            {"f16 NCHW to NHWC", f16, {64, 113, 113, 64}, {817216, 113, 1, 12769}},
            {"f32 transposed", f32, {9990, 9990}, {1, 9990}},
            {"f64 transposed", f64, {5916, 5916}, {1, 5916}},
            {"f32 [::-1, ::2]", f32, {8192, 8192}, {-16384, 2}, 8191 * 16384},
            {"f32 [:, 7:1007]", f32, {65536, 1000}, {1024, 1}, 7},
            {"u8 [:, :, 1]", u8, {16384, 16384}, {16384 * 3, 3}, 1},
            {"f32 permuted (3, 1, 0, 2)", f32, {68, 72, 64, 68}, {1, 4624, 332928, 68}},
            {"f32, one row repeated", f32, {10000, 10000}, {0, 1}},
            {"u16 in 5 dimensions", u16, {42, 32, 24, 36, 30}, {1, 1512, 1451520, 42, 48384}},
            {"f32 transposed, one slab", f32, {1024, 1025}, {1, 1024}, 0, 0.9}};
}

/// As `measure`, with a pause before each call: threads that wait for work are asleep.
std::vector<samples> measure_after_idle(std::vector<job> const& jobs) {
    std::vector<samples> found(jobs.size());
    for (auto const& f : jobs) f();
    for (int round = 0; round < 101; ++round)
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
            found[i].each.push_back(time_of(jobs[i], 1));
        }
    return found;
}

/// Lets each result of a copier have new memory, whether or not the copier can keep that of released results.
template <class Options>
void forget_results(Options& options) {
    if constexpr (requires { options.most_host_kept; }) options.most_host_kept = 0;
}

/// Threads that only touch each page of new memory, which bounds the rate of copies into it.
void touch_pages(std::size_t bytes, int threads) {
    cuda::fresh_host_space const space;
    auto* const p = static_cast<char volatile*>(space.allocate(bytes));
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i)
        all.emplace_back([=] {
            std::size_t const share = bytes / static_cast<std::size_t>(threads),
                              begin = static_cast<std::size_t>(i) * share;
            for (std::size_t at = begin; at < begin + share; at += 4096) p[at] = 1;
        });
    for (auto& t : all) t.join();
    space.deallocate(const_cast<char*>(p), bytes);
}

/// The goals of copies between pageable memory and the device, with a copier's default resources.
void bench_goals(world const& w, cuda::copier& copier, cuda::copier& forgets) {
    constexpr std::size_t mb = 1000 * 1000;
    auto const down = [&](std::size_t n) {
        return job{[&w, &copier, a = arrangement{layout::contiguous, n}] {
            ferry::copy(a.on_host(w.touched, ferry::cpu), a.on_device(w.device), copier, w.on);
        }};
    };
    auto const up = [&](std::size_t n) {
        return job{[&w, &copier, a = arrangement{layout::contiguous, n}] {
            ferry::copy(a.on_device(w.device), a.on_host(w.touched, ferry::cpu), copier, w.on);
        }};
    };
    auto const peer = [&](std::size_t n, void* host, bool to_host) {
        return job{[&w, a = arrangement{layout::contiguous, n}, host, to_host] { plain(w, a, host, to_host); }};
    };
    auto const result = [&](std::size_t n) {
        return job{[&w, &copier, a = arrangement{layout::contiguous, n}] {
            static_cast<void>(ferry::to_host(ferry::make_managed(no_owner{}, a.on_device(w.device)), copier, w.on));
        }};
    };
    struct goal {
        std::size_t bytes;
        double loop, idle;
    };
    for (auto const& [n, loop, idle] : {goal{256 * kib, 1.3, 1}, goal{512 * kib, 2.0, 1.2}, goal{mb, 2.5, 1.2},
                                        goal{3 * mb, 2.8, 1.2}, goal{8 * mb, 3.4, 1.2}}) {
        auto const t = measure({down(n), peer(n, w.touched, true)});
        row({"goal", "to the host, touched", n}, t[0], "cudaMemcpy", t[1], loop);
        auto const rested = measure_after_idle({down(n), peer(n, w.touched, true)});
        row({"goal", "to the host, touched, after 1 ms of idle", n}, rested[0], "cudaMemcpy", rested[1], idle);
    }
    for (auto const& [n, loop, idle] : {goal{mb, 1.8, 0}, goal{3 * mb, 2.1, 0}, goal{8 * mb, 2.5, 0}}) {
        auto const t = measure({up(n), peer(n, w.touched, false)});
        row({"goal", "from the host, pageable", n}, t[0], "cudaMemcpy", t[1], loop);
        auto const rested = measure_after_idle({up(n), peer(n, w.touched, false)});
        row({"goal", "from the host, pageable, after 1 ms of idle", n}, rested[0], "cudaMemcpy", rested[1], idle);
    }
    for (auto const& [n, loop, idle] : {goal{33 * mb, 0.88, 0}, goal{100 * mb, 0.92, 0}, goal{400 * mb, 0.94, 0}}) {
        auto const t = measure({down(n), peer(n, w.pinned_memory, true)});
        row({"goal", "to the host, touched", n}, t[0], "pinned link", t[1], loop);
    }
    for (auto const n : {mb, 10 * mb, 100 * mb, 400 * mb, gib}) {
        auto const t = measure({result(n), down(n)});
        row({"goal", "to_host, results dropped", n}, t[0], "copy into touched memory", t[1], 0.98);
    }
    int const threads = std::max(copier.started_lanes(), 1);
    for (auto const n : {400 * mb, gib, 2000 * mb}) {
        std::optional<ferry::managed_tensor> kept;  // released outside the measured time
        arrangement const a{layout::contiguous, n};
        auto const first = [&] {
            kept = ferry::to_host(ferry::make_managed(no_owner{}, a.on_device(w.device)), forgets, w.on);
        };
        auto const t = measure({first, [&] { touch_pages(n, threads); }, peer(n, w.pinned_memory, true)}, 3,
                               [&] { kept.reset(); });
        row({"goal", "to_host, new pages", n}, t[0], "threads that touch each page", t[1]);
        row({"goal", "to_host, new pages", n}, t[0], "pinned link", t[2]);
    }
    for (auto const& s : strided_layouts()) {
        auto const strides = job{[&] { ferry::copy(s.on_host(w.touched), s.on_device(w.device), copier, w.on); }};
        auto const t = measure({strides, down(s.bytes())});
        row({"goal", std::string{"strided into touched memory, "} + s.what, s.bytes()}, t[0], "contiguous, same bytes",
            t[1], s.budget);
    }
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
    row({"budget", "1000 x 4 KiB, evenly spaced", count * size}, t[0], "one pitched copy", t[1], 1.3, true);
    row({"budget", "1000 x 4 KiB, scattered, by a kernel", count * size}, t[3], "a loop of cudaMemcpyAsync", t[4], 3.5);
    row({"budget", "1000 x 4 KiB, scattered, one batch", count * size}, t[2], "a loop of cudaMemcpyAsync", t[4]);
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
    cuda::stream const of_second{1};
    arrangement const across{layout::transposed, bytes}, parts{layout::pieces, bytes};
    auto const strided = [&](arrangement const& a, ferry::stream_token on) {
        return job{[&, on] { ferry::copy(a.on_host(there.data(), second), a.on_device(w.device), copier, on); }};
    };
    auto const t =
        measure({[&] { ferry::copy(flat(there.data(), n, second), flat(w.device, n, gpu), copier, w.on); },
                 [&] {
                     check(cudaMemcpyPeerAsync(there.data(), 1, w.device, 0, bytes, w.s), "cudaMemcpyPeerAsync");
                     check(cudaStreamSynchronize(w.s), "cudaStreamSynchronize");
                 },
                 strided(across, w.on), strided(across, of_second), strided(parts, w.on), strided(parts, of_second)});
    auto const against = "cudaMemcpyPeer, peer access enabled";
    row({"budget", "peer copy", bytes}, t[0], against, t[1], 0.95);
    row({"budget", "peer copy, transposed, on a stream of the source", bytes}, t[2], against, t[1]);
    row({"budget", "peer copy, transposed, on a stream of the target", bytes}, t[3], against, t[1]);
    row({"budget", "peer copy, pieces, on a stream of the source", bytes}, t[4], against, t[1]);
    row({"budget", "peer copy, pieces, on a stream of the target", bytes}, t[5], against, t[1]);
}

/// Attaching what another process shares: against the driver's own calls, and 2 us where the mapping is found again.
void bench_attach(bench::exporter const& other) {
    auto const from = other.descriptor();
    cuda::shareable back_end;
    auto const attached = [&](ferry::ipc::session& session) {
        auto const tensor = ferry::ipc::attach(from, {.session = &session}, back_end);
        if (tensor.view().data() == nullptr) std::abort();
    };
    ferry::ipc::session forgets{{.unused_mappings = 0}}, keeps;
    cudaIpcMemHandle_t handle;
    if (from.memories.empty() || from.memories[0].handle.size() != sizeof handle) throw std::runtime_error{"no handle"};
    std::memcpy(&handle, from.memories[0].handle.data(), sizeof handle);
    auto const t =
        measure({[&] { attached(forgets); },
                 [&] {
                     void* p = nullptr;
                     check(cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
                     check(cudaIpcCloseMemHandle(p), "cudaIpcCloseMemHandle");
                 }});
    samples limit = t[1];
    for (auto& seconds : limit.each) seconds += 20e-6;
    row({"budget", "attach and release, mapped by its session"}, t[0], "open and close + 20 µs", limit, 1, true);
    row({"budget", "attach and release, mapped by its session"}, t[0], "cudaIpcOpenMemHandle, Close", t[1], 0, true);
    auto const again = measure({[&] { attached(keeps); }});
    row({"budget", "attach and release, found in its session"}, again[0], "2 µs",
        {std::vector<double>(again[0].each.size(), 2e-6)}, 1, true);

    // A stream waits for the exporter's event, and the exporter may wait for the stream.
    auto const written = other.descriptor(bench::exporter::event_tensor);
    cuda::stream const s{0};
    cudaIpcEventHandle_t event;
    if (written.memories.empty() || written.memories[0].ready.size() != sizeof event)
        throw std::runtime_error{"no event"};
    std::memcpy(&event, written.memories[0].ready.data(), sizeof event);
    auto const ordered = measure({[&] {
                                      auto const tensor =
                                          ferry::ipc::attach(written, {.session = &keeps, .stream = s}, back_end);
                                      if (tensor.view().data() == nullptr) std::abort();
                                  },
                                  [&] {
                                      cudaEvent_t theirs = nullptr;
                                      check(cudaIpcOpenEventHandle(&theirs, event), "cudaIpcOpenEventHandle");
                                      check(cudaStreamWaitEvent(s.get(), theirs, 0), "cudaStreamWaitEvent");
                                      check(cudaEventDestroy(theirs), "cudaEventDestroy");
                                  }});
    row({"budget", "attach on a stream and release, found in its session"}, ordered[0],
        "open, wait and destroy the event", ordered[1], 0, true);
}

/// Tables of 1000 columns in place: against the driver's own calls for their allocations; a share has 5 us and 0.2 us
/// for each buffer besides.
void bench_tables(bench::exporter const& other) {
    constexpr std::size_t columns = 1000;
    cuda::shareable back_end;
    for (bool const is_split : {false, true}) {
        std::string const kind = is_split ? "1000 allocations" : "one allocation";
        bench::gpu_table const table{columns, is_split};
        ferry::ipc::session session, forgets{{.unused_mappings = 0}}, keeps{{.unused_mappings = columns}};
        ferry::ipc::share_options const in_place{.session = &session, .copy = ferry::copy_policy::never};
        auto const t = measure(
            {[&] { static_cast<void>(ferry::ipc::share(table.column, in_place, back_end)); },
             [&] {
                 for (auto const& memory : *table.allocations) {
                     cudaIpcMemHandle_t handle;
                     check(cudaIpcGetMemHandle(&handle, const_cast<void*>(static_cast<void const*>(memory.data()))),
                           "cudaIpcGetMemHandle");
                 }
             }});
        samples limit = t[1];
        for (auto& seconds : limit.each) seconds += 5e-6 + 0.2e-6 * columns;
        row({"budget", "share and close a table of 1000 columns in " + kind}, t[0], "handles + 205 µs", limit, 1, true);
        row({"budget", "share and close a table of 1000 columns in " + kind}, t[0], "cudaIpcGetMemHandle", t[1], 0,
            true);

        auto const from = other.descriptor(is_split ? bench::exporter::split_table : bench::exporter::table);
        auto const attached = [&](ferry::ipc::session& s) {
            if (ferry::ipc::attach_column(from, {.session = &s}, back_end).length() == 0) std::abort();
        };
        auto const a = measure({[&] { attached(forgets); },
                                [&] {
                                    for (auto const& m : from.memories) {
                                        cudaIpcMemHandle_t handle;
                                        if (m.handle.size() != sizeof handle) throw std::runtime_error{"no handle"};
                                        std::memcpy(&handle, m.handle.data(), sizeof handle);
                                        void* p = nullptr;
                                        check(cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess),
                                              "cudaIpcOpenMemHandle");
                                        check(cudaIpcCloseMemHandle(p), "cudaIpcCloseMemHandle");
                                    }
                                },
                                [&] { attached(keeps); }});
        row({"budget", "attach and release a table in " + kind + ", mapped"}, a[0], "cudaIpcOpenMemHandle, Close", a[1],
            0, true);
        row({"budget", "attach and release a table in " + kind + ", found"}, a[2], "cudaIpcOpenMemHandle, Close", a[1],
            0, true);
    }
}

void write_json(std::string const& folder, int devices) {
    auto const path = folder + "/bench.json";
    auto* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) {
        std::perror(path.c_str());
        std::exit(2);
    }
    cudaDeviceProp of{};
    int runtime = 0;
    check(cudaGetDeviceProperties(&of, 0), "cudaGetDeviceProperties");
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    std::fprintf(file, "{\"gpu\": \"%s\", \"gpus\": %d, \"cuda\": \"%d.%d\", \"cores\": %u, \"rows\": [\n", of.name,
                 devices, runtime / 1000, runtime % 1000 / 10, std::thread::hardware_concurrency());
    for (std::size_t i = 0; i < json.size(); ++i)
        std::fprintf(file, "  %s%s\n", json[i].c_str(), i + 1 < json.size() ? "," : "");
    std::fputs("]}\n", file);
    std::fclose(file);
}

/// A virtual machine may get memory from its host when it first touches it, which takes longer than any copy: all that
/// the fresh memory below is likely to be made of is touched once.
void touch_free_memory(std::size_t wanted) {
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
               free = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
               bytes = std::min(wanted, free / 2) / (2 * mib) * (2 * mib);
    void* const all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return;
    madvise(all, bytes, MADV_HUGEPAGE);
    std::vector<std::thread> threads;
    std::size_t const share = bytes / std::max(std::thread::hardware_concurrency(), 1u) + 1;
    for (std::size_t begin = 0; begin < bytes; begin += share)
        threads.emplace_back([=] {
            for (std::size_t at = begin; at < std::min(begin + share, bytes); at += page)
                static_cast<char volatile*>(all)[at] = 1;
        });
    for (auto& t : threads) t.join();
    munmap(all, bytes);
}

}  // namespace

int main(int argc, char** argv) {
    std::string out;
    std::size_t most = 4 * gib;
    bool const only_goals = argc > 1 && std::strcmp(argv[1], "--goals") == 0;
    if (only_goals) most = 2 * gib;
    for (int i = only_goals ? 2 : 1; i + 1 < argc; i += 2) {
        if (std::strcmp(argv[i], "--out") == 0) out = argv[i + 1];
        else if (std::strcmp(argv[i], "--max") == 0) most = std::strtoull(argv[i + 1], nullptr, 10);
        else if (std::strcmp(argv[i], "--seconds") == 0) seconds_per_group = std::strtod(argv[i + 1], nullptr);
    }
    bench::exporter const other;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("SKIPPED: no CUDA device here\n");
        return 77;
    }
    if (most < 32 * mib) most = 32 * mib;
    touch_free_memory(4 * most);
    try {
        cuda::stream const first{0}, second{0};
        cuda::memory const device{gpu, 2 * most, {}}, locked{pinned, most, {}}, both{managed, most, {}};
        world w{first.get(), first, device.data(), locked.data(), std::aligned_alloc(4096, most), both.data()};
        if (w.touched == nullptr) return 2;
        std::memset(w.touched, 1, most);  // small pages, as a program's own memory has
        std::memset(w.pinned_memory, 1, most);
        std::memset(w.managed_memory, 1, most);
        check(cudaMemset(w.device, 1, 2 * most), "cudaMemset");
        check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");

        cuda::copier_options options;
        options.lanes = 8;
        options.most_kept = 512 * mib;
        options.pack = cuda::pack;
        forget_results(options);
        cuda::copier eight{options};
        options.lanes = 16;
        cuda::copier sixteen{options};
        options.lanes = 8;

        std::printf("%-52s %8s %15s %12s  %-28s %8s (quartiles)  %-8s %s\n", "what", "bytes", "time", "rate", "against",
                    "ratio", "budget", "holds");
        auto const shares = [&] {
            try {
                if (!only_goals) bench_attach(other);
                bench_tables(other);
            } catch (std::exception const& e) {
                std::printf("attach: left out: %s\n", e.what());
            }
        };
        if (only_goals) {
            cuda::copier_options ordinary{.pack = cuda::pack};
            cuda::copier copier{ordinary};
            forget_results(ordinary);
            cuda::copier forgets{ordinary};
            bench_goals(w, copier, forgets);
            shares();
            if (!out.empty()) write_json(out, devices);
            std::free(w.touched);
            std::printf(all_hold ? "all goals hold\n" : "SOME GOALS DO NOT HOLD\n");
            return all_hold ? 0 : 1;
        }
        bench_handshake(first.get(), second.get());
        for (auto const l : {layout::contiguous, layout::transposed, layout::pieces})
            for (auto const n : {4 * kib, 64 * kib, mib, 16 * mib, 256 * mib, gib, 4 * gib}) {
                if (n > most) continue;
                bench_down(w, eight, sixteen, l, n);
                bench_up(w, eight, l, n);
            }
        for (auto const l : {layout::transposed, layout::pieces})
            for (auto const n : {mib, 16 * mib, 64 * mib})
                if (n <= most) bench_ways(w, options, l, n);
        bench_pieces(w, eight);
        bench_peers(w, eight, std::min(most, gib));
        shares();
        if (!out.empty()) write_json(out, devices);
        std::free(w.touched);
    } catch (ferry::error const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
    std::printf(all_hold ? "all budgets hold\n" : "SOME BUDGETS DO NOT HOLD\n");
    return all_hold ? 0 : 1;
}
