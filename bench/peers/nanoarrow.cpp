// nanoarrow's C library, by the same steps: the structure is checked, the array taken over; out go arrays that share
// its buffers and keep it alive, and a copy of the schema.
#include "../arrow.hpp"

extern "C" {
#include <nanoarrow/nanoarrow.h>
}

#include <atomic>
#include <cstdlib>

namespace {

/// What nanoarrow leaves to its user: an array that several buffers keep alive.
struct shared_array {
    std::atomic<int> references{1};
    ArrowArray array;
};

void drop(shared_array* s) {
    if (s->references.fetch_sub(1) != 1) return;
    ArrowArrayRelease(&s->array);
    delete s;
}

int share(ArrowArrayView const& view, shared_array* owner, ArrowArray& out) {
    for (std::int64_t i = 0; i < view.array->n_buffers; ++i) {
        ArrowBuffer buffer;
        ArrowBufferInit(&buffer);
        buffer.data = const_cast<std::uint8_t*>(view.buffer_views[i].data.as_uint8);
        buffer.size_bytes = view.buffer_views[i].size_bytes;
        ++owner->references;
        buffer.allocator =
            ArrowBufferDeallocator([](ArrowBufferAllocator* a, std::uint8_t*,
                                      std::int64_t) { drop(static_cast<shared_array*>(a->private_data)); },
                                   owner);
        NANOARROW_RETURN_NOT_OK(ArrowArraySetBuffer(&out, i, &buffer));
    }
    out.length = view.length, out.null_count = view.null_count, out.offset = view.offset;
    for (std::int64_t i = 0; i < view.n_children; ++i)
        NANOARROW_RETURN_NOT_OK(share(*view.children[i], owner, *out.children[i]));
    return NANOARROW_OK;
}

bool import_and_export(ArrowArray& array, ArrowSchema& schema) {
    ArrowError error;
    ArrowArrayView view;
    if (ArrowArrayViewInitFromSchema(&view, &schema, &error) != NANOARROW_OK ||
        ArrowArrayViewSetArray(&view, &array, &error) != NANOARROW_OK)
        return false;
    auto* const owner = new shared_array;
    ArrowArrayMove(&array, &owner->array);
    ArrowArray out;
    ArrowSchema type;
    if (ArrowArrayInitFromArrayView(&out, &view, &error) != NANOARROW_OK || share(view, owner, out) != NANOARROW_OK ||
        ArrowArrayFinishBuilding(&out, NANOARROW_VALIDATION_LEVEL_NONE, &error) != NANOARROW_OK ||
        ArrowSchemaDeepCopy(&schema, &type) != NANOARROW_OK)
        return false;
    benchmark::DoNotOptimize(&out);
    benchmark::DoNotOptimize(&type);
    ArrowArrayRelease(&out);
    ArrowSchemaRelease(&type);
    ArrowSchemaRelease(&schema);
    ArrowArrayViewReset(&view);
    drop(owner);
    return true;
}

void nanoarrow_import_export_release(benchmark::State& state) {
    bench::each(state, [&](ArrowArray& array, ArrowSchema& schema) {
        if (!import_and_export(array, schema)) state.SkipWithError("nanoarrow refuses");
    });
}
BENCHMARK(nanoarrow_import_export_release)->Arg(1)->Arg(bench::columns);

/// Import alone: no node of its own, only a view beside the array.
void nanoarrow_import_and_release(benchmark::State& state) {
    bench::each(state, [&](ArrowArray& array, ArrowSchema& schema) {
        ArrowError error;
        ArrowArrayView view;
        ArrowArray taken;
        if (ArrowArrayViewInitFromSchema(&view, &schema, &error) != NANOARROW_OK ||
            ArrowArrayViewSetArray(&view, &array, &error) != NANOARROW_OK)
            return state.SkipWithError("nanoarrow refuses");
        ArrowArrayMove(&array, &taken);
        benchmark::DoNotOptimize(&view);
        ArrowArrayRelease(&taken);
        ArrowSchemaRelease(&schema);
        ArrowArrayViewReset(&view);
    });
}
BENCHMARK(nanoarrow_import_and_release)->Arg(1)->Arg(bench::columns);

}  // namespace
