// Arrow's C device interface with CUDA events: gates hold the producer's stream closed during exports and imports.
#include <ferry/arrow.hpp>
#include <ferry/cuda/arrow.hpp>
#include <gpu/world.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

using namespace support;
namespace cuda = ferry::cuda;
using ferry::errc;
using ferry::stream_token;

constexpr std::int64_t many = 1000;

/// A column of floats that the stream `theirs` writes once the gate is open, as an array with an event.
struct closed_column {
    closed_column(ferry::device where, stream_token theirs)
        : floats{make_poisoned(where, {many}, theirs)}, closed{handle(theirs)} {
        load_kernels();
        iota(floats.first(), floats.size(), handle(theirs));
        ferry::column_buffer const buffers[] = {{}, {floats.first(), many * 4}};
        auto const c =
            ferry::make_column({.format = "f", .name = "x", .length = many, .buffers = buffers}, floats.memory, where);
        ferry::to_arrow(c, &array, cuda::arrow, theirs);
        ferry::to_arrow_schema(c, &schema);
    }
    gpu_array floats;
    gate closed;
    ArrowDeviceArray array{};
    ArrowSchema schema{};
};

[[nodiscard]] float const* data(ferry::column const& c) {
    return static_cast<float const*>(c.view().buffers()[1].data);
}

}  // namespace

TEST_CASE("cuda arrow: an import returns while the producer's stream is closed, and the consumer's stream waits") {
    for (auto const where : cuda_memory) {
        test_stream const theirs, ours;
        for (auto const on :
             {ours.token(), stream_token::cuda_legacy_default(), stream_token::cuda_per_thread_default()}) {
            auto result = make_poisoned(gpu, {many});
            closed_column producer{where, theirs.token()};
            REQUIRE(producer.array.sync_event != nullptr);
            auto const c = ferry::from_arrow(&producer.array, &producer.schema, cuda::arrow, on);
            add(result.first(), data(c), 0, many, handle(on));
            CHECK_GATED(!producer.closed.is_open());
            producer.closed.open();
            must(cudaStreamSynchronize(handle(on)));
            CHECK_GATED(!producer.closed.was_forced());
            CHECK(is_iota(read(result.first(), many)));
            CHECK(left_no_error());
        }
    }
}

TEST_CASE("cuda arrow: without a stream the host waits for the event") {
    test_stream const theirs;
    closed_column producer{managed, theirs.token()};
    opener const later{producer.closed};
    auto const c = ferry::from_arrow(&producer.array, &producer.schema, cuda::arrow);
    CHECK_GATED(producer.closed.is_open());
    CHECK(is_iota({data(c), data(c) + many}));
}

TEST_CASE("cuda arrow: a null sync_event needs no wait") {
    test_stream const theirs, ours;
    closed_column producer{gpu, theirs.token()};
    producer.array.sync_event = nullptr;
    auto const c = ferry::from_arrow(&producer.array, &producer.schema, cuda::arrow);
    CHECK_GATED(!producer.closed.is_open());
    CHECK(ours.is_idle());
    producer.closed.open();
    theirs.finish();
    CHECK(is_iota(read(data(c), many)));
}

TEST_CASE("cuda arrow: captured streams are refused before ownership is taken, and their capture stays valid") {
    test_stream const theirs, ours;
    closed_column producer{gpu, theirs.token()};
    producer.closed.open();
    must(cudaStreamBeginCapture(ours.get(), cudaStreamCaptureModeThreadLocal));
    fails(errc::capturing,
          [&] { static_cast<void>(ferry::from_arrow(&producer.array, &producer.schema, cuda::arrow, ours.token())); });
    CHECK(!!producer.schema.release);
    ArrowDeviceArray out{};
    auto const c = ferry::from_arrow(&producer.array, &producer.schema, cuda::arrow);
    fails(errc::capturing, [&] { ferry::to_arrow(c, &out, cuda::arrow, ours.token()); });
    cudaGraph_t graph = nullptr;
    must(cudaStreamEndCapture(ours.get(), &graph));
    must(cudaGraphDestroy(graph));
    CHECK(!out.array.release);
    CHECK(left_no_error());
}
