// Arrow's C device interface with CUDA events: gates hold the producer's stream closed during exports and imports.
#include <ferry/arrow.hpp>
#include <ferry/column.hpp>
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

TEST_CASE(
    "cuda arrow: the chunks of a device stream, and a tensor of lists in one, wait for the stream that writes them") {
    test_stream const theirs, ours;
    std::int64_t const shape[] = {many / 10, 10};
    auto const numbers = make_poisoned(gpu, {many}, theirs.token());
    auto const result = make_poisoned(gpu, {many});
    load_kernels();
    gate closed{theirs.get()};
    iota(numbers.first(), many, theirs.get());
    ferry::tensor_view const rows{static_cast<void*>(numbers.first()), ferry::dtype_of<float>, shape, {}, gpu};
    auto const lists = ferry::from_tensors(ferry::make_managed(std::shared_ptr{numbers.memory}, rows), {}, cuda::system,
                                           theirs.token());
    CHECK(lists.format() == "+w:10");
    ArrowDeviceArrayStream stream{};
    ferry::to_arrow(ferry::chunked{{lists.slice(0, 30), lists.slice(30, 70)}, lists}, &stream, cuda::arrow,
                    theirs.token());
    CHECK(stream.device_type == ARROW_DEVICE_CUDA);
    auto const all = ferry::from_arrow(&stream, cuda::arrow, ours.token());
    std::int64_t begin = 0;
    for (auto const& chunk : all.chunks()) {
        auto const t = ferry::to_tensor(chunk, cuda::system, ours.token());
        CHECK(t.view().extent(0) == chunk.length());
        CHECK(t.view().extent(1) == 10);
        CHECK(t.view().data() == numbers.first() + begin);
        add(result.first() + begin, numbers.first() + begin, 0, static_cast<std::size_t>(t.view().size()), ours.get());
        begin += t.view().size();
    }
    CHECK_GATED(!closed.is_open());
    closed.open();
    ours.finish();
    CHECK_GATED(!closed.was_forced());
    CHECK(begin == many);
    CHECK(is_iota(read(result.first(), many)));
    CHECK(left_no_error());
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
