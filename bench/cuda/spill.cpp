// Measures spills and returns of tensors, in pinned and in pageable memory, beside cudaMemcpyAsync to pinned memory and
// beside migrations of managed memory by cudaMemPrefetchAsync, in one run. Each round measures every side once, and
// checks the bytes. Prints the median rate of each side and direction.
//
//   spill [TENSORS [MEBIBYTES_EACH [ROUNDS]]]
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/lease.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

/// Gigabytes per second of each round, by side and direction.
std::map<std::pair<std::string, std::string>, std::vector<double>> rates;

template <class F>
void measure(char const* side, char const* direction, std::size_t bytes, F f) {
    auto const begin = std::chrono::steady_clock::now();
    f();
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    rates[{side, direction}].push_back(static_cast<double>(bytes) / took.count() * 1e-9);
}

void expect(bool holds, char const* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

void must(cudaError_t e) { expect(e == cudaSuccess, cudaGetErrorString(e)); }

/// Moves managed memory to device 0, or to the host.
void prefetch(void* p, std::size_t bytes, bool to_device, cudaStream_t s) {
#if CUDART_VERSION >= 13000
    cudaMemLocation const place{to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, 0};
    must(cudaMemPrefetchAsync(p, bytes, place, 0, s));
#else
    must(cudaMemPrefetchAsync(p, bytes, to_device ? 0 : cudaCpuDeviceId, s));
#endif
}

[[nodiscard]] int last_byte(void const* device_memory, std::size_t bytes) {
    unsigned char last = 0;
    must(cudaMemcpy(&last, static_cast<std::byte const*>(device_memory) + bytes - 1, 1, cudaMemcpyDefault));
    return last;
}

struct sizes {
    int tensors;
    std::size_t each;
    [[nodiscard]] std::size_t all() const { return static_cast<std::size_t>(tensors) * each; }
};

/// Tensors that a manager spills and brings back.
class leases {
   public:
    leases(char const* side, sizes n, std::size_t most_pinned, cudaStream_t s)
        : side_{side},
          n_{n},
          on_{ferry::cuda::stream_ref{s}},
          copier_{{.most_kept = most_pinned}},
          manager_{copier_, device_, {.most_pinned = most_pinned}} {
        for (int i = 0; i < n.tensors; ++i) {
            ferry::buffer<ferry::cuda::device_space> memory{n.each, device_};
            must(cudaMemsetAsync(memory.data(), i + 1, n.each, s));
            auto const extent = static_cast<std::int64_t>(n.each);
            ferry::tensor_view const view{
                memory.data(), ferry::dtype_of<std::uint8_t>, {&extent, 1}, {}, device_.device()};
            all_.push_back(manager_.adopt(ferry::make_managed(std::move(memory), view), on_));
        }
        must(cudaStreamSynchronize(s));
    }
    void round() {
        measure(side_, "to the host", n_.all(),
                [&] { expect(manager_.free_up(n_.all()) == n_.all(), "not all tensors were spilled"); });
        measure(side_, "to the device", n_.all(), [&] {
            for (auto const& t : all_) static_cast<void>(t.read(on_));
        });
        for (int i = 0; i < n_.tensors; ++i) {
            auto const m = all_[static_cast<std::size_t>(i)].read(on_);
            expect(last_byte(m.view().data(), n_.each) == i + 1, "a spilled tensor has other bytes");
        }
    }

   private:
    char const* side_;
    sizes n_;
    ferry::stream_token on_;
    ferry::cuda::copier copier_;
    ferry::cuda::device_space device_{0};
    ferry::spill_manager manager_;
    std::vector<ferry::spillable> all_;
};

}  // namespace

int main(int argc, char** argv) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return std::puts("no device"), 77;
    auto const argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
    sizes const n{argument(1, 16), static_cast<std::size_t>(argument(2, 256)) << 20};
    int const rounds = argument(3, 7);
    cudaStream_t s = nullptr;
    must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    {
        leases in_pinned{"leases, pinned memory", n, n.all(), s}, in_pageable{"leases, pageable memory", n, 0, s};
        void *device = nullptr, *host = nullptr, *managed = nullptr;
        must(cudaMalloc(&device, n.each));
        must(cudaMallocHost(&host, n.all()));
        must(cudaMallocManaged(&managed, n.all()));
        must(cudaMemsetAsync(device, 7, n.each, s));
        prefetch(managed, n.all(), true, s);
        must(cudaMemsetAsync(managed, 7, n.all(), s));
        must(cudaStreamSynchronize(s));
        for (int round = 0; round < rounds; ++round) {
            in_pinned.round();
            in_pageable.round();
            auto const copy = [&](cudaMemcpyKind kind) {
                for (int i = 0; i < n.tensors; ++i) {
                    void* const here = static_cast<std::byte*>(host) + static_cast<std::size_t>(i) * n.each;
                    bool const is_up = kind == cudaMemcpyHostToDevice;
                    must(cudaMemcpyAsync(is_up ? device : here, is_up ? here : device, n.each, kind, s));
                }
                must(cudaStreamSynchronize(s));
            };
            measure("cudaMemcpyAsync, pinned memory", "to the host", n.all(), [&] { copy(cudaMemcpyDeviceToHost); });
            measure("cudaMemcpyAsync, pinned memory", "to the device", n.all(), [&] { copy(cudaMemcpyHostToDevice); });
            auto const migrate = [&](bool to_device) {
                prefetch(managed, n.all(), to_device, s);
                must(cudaStreamSynchronize(s));
            };
            measure("managed memory, prefetch", "to the host", n.all(), [&] { migrate(false); });
            measure("managed memory, prefetch", "to the device", n.all(), [&] { migrate(true); });
            expect(last_byte(managed, n.all()) == 7, "managed memory has other bytes");
        }
        must(cudaFree(managed));
        must(cudaFreeHost(host));
        must(cudaFree(device));
    }
    must(cudaStreamDestroy(s));
    std::printf("%d tensors of %zu MiB, median of %d rounds, GB/s\n", n.tensors, n.each >> 20, rounds);
    for (auto& [name, each] : rates) {
        std::sort(each.begin(), each.end());
        std::printf("%-32s %-14s %7.2f (%.2f-%.2f)\n", name.first.c_str(), name.second.c_str(), each[each.size() / 2],
                    each.front(), each.back());
    }
    return 0;
}
