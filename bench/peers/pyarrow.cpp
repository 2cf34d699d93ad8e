// The C++ library of Arrow that pyarrow contains: imports and exports the same structs.
#include "../arrow.hpp"

#include <arrow/array.h>
#include <arrow/c/bridge.h>

namespace {

void pyarrow_import_export_release(benchmark::State& state) {
    bench::each(state, [&](ArrowArray& array, ArrowSchema& schema) {
        auto const imported = arrow::ImportArray(&array, &schema);
        ArrowArray out;
        ArrowSchema type;
        if (!imported.ok() || !arrow::ExportArray(**imported, &out, &type).ok())
            return state.SkipWithError("Arrow refuses");
        benchmark::DoNotOptimize(&out);
        benchmark::DoNotOptimize(&type);
        out.release(&out);
        type.release(&type);
    });
}
BENCHMARK(pyarrow_import_export_release)->Arg(1)->Arg(bench::columns);

}  // namespace
