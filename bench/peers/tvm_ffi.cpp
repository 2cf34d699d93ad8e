// The same round trip in C++ with tvm-ffi.
#include <tvm/ffi/container/tensor.h>

#include <benchmark/benchmark.h>

#include <cstdint>

namespace {

struct lent_memory {
    float elements[2 * 3 * 4 * 5] = {};
    void AllocData(DLTensor* tensor) { tensor->data = elements; }
    void FreeData(DLTensor*) {}
};

void tvm_ffi_export_import_release(benchmark::State& state) {
    namespace ffi = tvm::ffi;
    auto const tensor = ffi::Tensor::FromNDAlloc(lent_memory{}, ffi::Shape{2, 3, 4, 5}, {kDLFloat, 32, 1}, {kDLCPU, 0});
    for (auto _ : state) {
        auto* raw = tensor.ToDLPackVersioned();
        benchmark::DoNotOptimize(raw);
        auto back = ffi::Tensor::FromDLPackVersioned(raw);
        benchmark::DoNotOptimize(back.data_ptr());
    }
}
BENCHMARK(tvm_ffi_export_import_release);

}  // namespace
