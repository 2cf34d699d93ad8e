// The same round trip in C++ with PyTorch.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <benchmark/benchmark.h>

namespace {

void torch_export_import_release(benchmark::State& state) {
    auto const tensor = at::zeros({2, 3, 4, 5});
    for (auto _ : state) {
        auto* raw = at::toDLPackVersioned(tensor);
        benchmark::DoNotOptimize(raw);
        auto back = at::fromDLPackVersioned(raw);
        benchmark::DoNotOptimize(back.data_ptr());
    }
}
BENCHMARK(torch_export_import_release);

}  // namespace
