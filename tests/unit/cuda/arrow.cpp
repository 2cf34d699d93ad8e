#include <ferry/arrow.hpp>
#include <ferry/cuda/arrow.hpp>
#include <ferry/cuda/copier.hpp>

namespace cuda = ferry::cuda;

static_assert(ferry::arrow_event_back_end<cuda::arrow_back_end const>);
static_assert(ferry::back_end<cuda::arrow_back_end const>);
static_assert(!ferry::arrow_event_back_end<cuda::system_back_end const>, "events are asked for by name");
static_assert(!ferry::arrow_event_back_end<cuda::copier>);

// An import that is written with it compiles.
[[maybe_unused]] static ferry::column imported(ArrowDeviceArray* array, ArrowSchema* schema, cuda::stream_ref s) {
    return ferry::from_arrow(array, schema, cuda::arrow, s);
}
[[maybe_unused]] static void exported(ferry::column const& c, ArrowDeviceArray* array, cuda::stream_ref s) {
    ferry::to_arrow(c, array, cuda::arrow, s);
}
