// Exchanges of a pipeline that prefetches: what waits for what.
#include "tensor.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr ferry::device gpu_0{ferry::device_type::cuda, 0};

void check(bool holds, char const* what) {
    std::printf("%s: %s\n", holds ? "ok" : "FAILED", what);
    if (!holds) std::exit(1);
}

float element(pipeline::device_type const& gpu, void const* data, int i) {
    float value;
    std::memcpy(&value, gpu.elements(data) + 4 * i, 4);
    return value;
}

}  // namespace

int main() {
    pipeline::device_type gpu{gpu_0};
    auto const prefetch = gpu.make_stream(), consumer = gpu.make_stream(), other = gpu.make_stream();
    auto frame = pipeline::make(gpu, ferry::dtype_of<float>, {2, 3}, gpu_0, prefetch);
    bool is_next_done = false;
    gpu.queue(prefetch, [&] {
        for (float i = 0; i < 6; ++i) std::memcpy(gpu.elements(frame.data) + 4 * static_cast<int>(i), &i, 4);
    });
    frame.written = gpu.record_event(gpu_0, prefetch);
    gpu.queue(prefetch, [&] { is_next_done = true; });  // the next frame, which no consumer has requested

    ferry::managed_tensor shared = ferry::to_dlpack(frame, {.stream = consumer}, gpu);
    float seen = -1;
    gpu.queue(consumer, [&] { seen = element(gpu, shared.view().data(), 5); });
    gpu.run(consumer);
    check(seen == 5, "a consumer that was given a stream sees the frame");
    check(!is_next_done, "it does not wait for the next frame");

    pipeline::counted = {};
    static_cast<void>(ferry::to_dlpack(frame, {.stream = ferry::already_ready}, gpu));
    check(pipeline::counted.events == 0, "no event is asked for a consumer that synchronises by itself");

    auto copy = ferry::from_dlpack<pipeline::tensor>(frame, {.copy = ferry::copy_policy::always, .stream = consumer}, gpu);
    check(copy.data != frame.data && pipeline::counted.allocated == consumer, "a copy is allocated on the stream of its consumer");
    ferry::managed_tensor again = ferry::to_dlpack(copy, {.stream = other}, gpu);
    gpu.queue(other, [&] { seen = 2 * element(gpu, again.view().data(), 4); });
    gpu.run(other);
    check(seen == 8, "a tensor that was imported on one stream and exported to another is not stale");
    check(!is_next_done, "that did not wait for the next frame, either");

    ferry::tensor_view const view = again.view();
    auto fixed = ferry::make_managed(std::move(again), view.as_read_only());
    check(!ferry::try_from_dlpack<pipeline::tensor>(std::move(fixed), {.stream = other}, gpu), "a read-only tensor is not imported into a tensor without such a flag");
}
