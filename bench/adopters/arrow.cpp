// Times Arrow's functions for DLPack, by hand in libarrow and on ferry in another library; a ratio above 1: ferry is faster:
//     measure LIBARROW LIBRARY_ON_FERRY [ROUNDS]   (built by examples/adopters/arrow)
#include <arrow/api.h>
#include <arrow/c/dlpack.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

template <class T>
using pointer = std::shared_ptr<T> const&;

struct functions {
    arrow::Result<DLManagedTensorVersioned*> (*export_array)(pointer<arrow::Array>, bool);
    arrow::Result<DLManagedTensorVersioned*> (*export_tensor)(pointer<arrow::Tensor>, bool);
    arrow::Result<DLManagedTensor*> (*export_legacy)(pointer<arrow::Array>);
    arrow::Result<std::shared_ptr<arrow::Array>> (*import_array)(DLManagedTensorVersioned*);
    arrow::Result<std::shared_ptr<arrow::Tensor>> (*import_tensor)(DLManagedTensorVersioned*);
};

template <class F>
void load(void* library, char const* name, F& f) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    f = reinterpret_cast<F>(symbol);
}

functions load(char const* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    functions f{};
    load(library, "_ZN5arrow6dlpack20ExportArrayVersionedERKSt10shared_ptrINS_5ArrayEEb", f.export_array);
    load(library, "_ZN5arrow6dlpack21ExportTensorVersionedERKSt10shared_ptrINS_6TensorEEb", f.export_tensor);
    load(library, "_ZN5arrow6dlpack11ExportArrayERKSt10shared_ptrINS_5ArrayEE", f.export_legacy);
    load(library, "_ZN5arrow6dlpack20ImportArrayVersionedEP24DLManagedTensorVersioned", f.import_array);
    load(library, "_ZN5arrow6dlpack21ImportTensorVersionedEP24DLManagedTensorVersioned", f.import_tensor);
    return f;
}

/// Returns the nanoseconds of a call: the smallest of several rounds.
template <class F>
double measure(int rounds, F f) {
    double best = 1e9;
    for (int round = 0; round < rounds; ++round) {
        constexpr int calls = 10000;  // shorter than a time slice: other processes do not disturb the smallest
        auto const begin = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) f();
        auto const time = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin);
        best = std::min(best, time.count() / calls);
    }
    return best;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 1;
    int const rounds = argc > 3 ? std::atoi(argv[3]) : 500;
    functions const hand = load(argv[1]), ferry = load(argv[2]);
    auto const memory = arrow::Buffer::FromString(std::string(24, '\0'));
    std::shared_ptr<arrow::Array> const array = std::make_shared<arrow::Int32Array>(6, memory);
    auto const tensor = *arrow::Tensor::Make(arrow::int32(), memory, {2, 3});
    auto const deep = *arrow::Tensor::Make(arrow::int32(), memory, std::vector<std::int64_t>(65, 1));

    auto const row = [&](char const* name, auto call) {
        double by_hand = 1e9, on_ferry = 1e9;
        for (int round = 0; round < rounds; round += 20) {
            by_hand = std::min(by_hand, measure(20, [&] { call(hand); }));
            on_ferry = std::min(on_ferry, measure(20, [&] { call(ferry); }));
        }
        std::printf("%-34s%8.0f%10.0f%8.2f\n", name, by_hand, on_ferry, by_hand / on_ferry);
    };
    auto const drop = [](auto exported) { (*exported)->deleter(*exported); };
    std::printf("%-34s%8s%10s%8s\n", "nanoseconds a call", "by hand", "on ferry", "ratio");
    row("export an Array", [&](functions const& f) { drop(f.export_array(array, false)); });
    row("export a Tensor", [&](functions const& f) { drop(f.export_tensor(tensor, false)); });
    row("export a Tensor of 65 dimensions", [&](functions const& f) { drop(f.export_tensor(deep, false)); });
    row("copy an Array", [&](functions const& f) { drop(f.export_array(array, true)); });
    row("export an Array, legacy", [&](functions const& f) { drop(f.export_legacy(array)); });
    row("export by hand, import an Array", [&](functions const& f) { (void)*f.import_array(*hand.export_array(array, false)); });
    row("export by hand, import a Tensor", [&](functions const& f) { (void)*f.import_tensor(*hand.export_tensor(tensor, false)); });
    row("export and import an Array", [&](functions const& f) { (void)*f.import_array(*f.export_array(array, false)); });
}
