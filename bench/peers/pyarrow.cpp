// The C++ library of Arrow that pyarrow contains: imports and exports the same structs, and copies the same columns by
// the function that pyarrow's concat_arrays and combine_chunks call.
#include "../arrow.hpp"

#include <ferry/arrow.hpp>

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>

#include <vector>

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

void concatenate(benchmark::State& state, std::vector<ferry::column> const& columns) {
    arrow::ArrayVector slices;
    for (auto const& slice : columns) {
        ArrowArray array;
        ArrowSchema schema;
        ferry::to_arrow(slice, &array);
        ferry::to_arrow_schema(slice, &schema);
        slices.push_back(*arrow::ImportArray(&array, &schema));
    }
    for (auto _ : state) {
        auto const joined = arrow::Concatenate(slices);
        if (!joined.ok()) return state.SkipWithError("Arrow refuses");
        benchmark::DoNotOptimize(&joined);
    }
}
void pyarrow_compact(benchmark::State& state, char const* format, bool nulls) {
    concatenate(state, bench::slices(format, nulls, state.range(0), 1));
}
BENCHMARK_CAPTURE(pyarrow_compact, i, "i", false)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(pyarrow_compact, i_nulls, "i", true)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(pyarrow_compact, u_nulls, "u", true)->Arg(1'000)->Arg(100'000);
void pyarrow_concat(benchmark::State& state, char const* format, bool nulls) {
    concatenate(state, bench::slices(format, nulls, state.range(0), 10));
}
BENCHMARK_CAPTURE(pyarrow_concat, i, "i", false)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(pyarrow_concat, i_nulls, "i", true)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(pyarrow_concat, u_nulls, "u", true)->Arg(1'000)->Arg(100'000);

void pyarrow_concat_dictionaries(benchmark::State& state) { concatenate(state, bench::dictionary_chunks()); }
BENCHMARK(pyarrow_concat_dictionaries);

/// The copy alone, of a table that has been imported: what pyarrow's `Table.combine_chunks` calls.
void pyarrow_combine_chunks(benchmark::State& state) {
    bench::two_row_batches batches;
    auto stream = batches.stream();
    auto const reader = arrow::ImportRecordBatchReader(&stream);
    auto const table = reader.ok() ? (*reader)->ToTable() : reader.status();
    for (auto _ : state) {
        auto const joined = table.ok() ? (*table)->CombineChunks() : table.status();
        if (!joined.ok()) return state.SkipWithError("Arrow refuses");
        benchmark::DoNotOptimize(&joined);
    }
}
BENCHMARK(pyarrow_combine_chunks);

void pyarrow_import_export_stream(benchmark::State& state) {
    bench::two_row_batches batches;
    for (auto _ : state) {
        auto stream = batches.stream();
        ArrowArrayStream out;
        auto const reader = arrow::ImportRecordBatchReader(&stream);
        auto const chunks = reader.ok() ? (*reader)->ToRecordBatches() : reader.status();
        auto const again = chunks.ok() ? arrow::RecordBatchReader::Make(*chunks) : chunks.status();
        if (!again.ok() || !arrow::ExportRecordBatchReader(*again, &out).ok())
            return state.SkipWithError("Arrow refuses");
        bench::drain(out);
    }
}
BENCHMARK(pyarrow_import_export_stream);

}  // namespace
