// A tensor of a pipeline that prefetches, after the tensors of DALI: its stream runs ahead, and an event marks the work that
// wrote the tensor. The device is simulated.
#pragma once

#include <ferry/conformance/sim_device.hpp>
#include <ferry/ferry.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace pipeline {

using device_type = ferry::conformance::sim_device;

struct tensor {
    std::shared_ptr<void> memory;
    void* data = nullptr;
    ferry::data_type type;
    std::vector<std::int64_t> shape, strides;
    ferry::device place;
    ferry::stream_token order;     // the stream of later work on the tensor
    device_type::event written{};  // behind the work that wrote the tensor
};

/// What the examples count.
struct calls {
    int events = 0;                 // times that an event was asked for
    ferry::stream_token allocated;  // the stream of the last allocation
};
inline calls counted;

inline tensor make(device_type& gpu, ferry::data_type type, std::vector<std::int64_t> shape, ferry::device at, ferry::stream_token on) {
    std::size_t bytes = type.bits / 8u;
    for (auto const extent : shape) bytes *= static_cast<std::size_t>(extent);
    auto memory = std::make_shared<device_type::memory>(gpu.allocate(at, bytes, on));
    void* const data = memory->data();
    return {std::move(memory), data, type, std::move(shape), {}, at, on};
}

}  // namespace pipeline

template <>
struct ferry::array_traits<pipeline::tensor> {
    using tensor = pipeline::tensor;
    static tensor_view view(tensor const& t) { return {t.data, t.type, t.shape, t.strides, t.place}; }
    static tensor share(tensor const& t) { return t; }

    // Imported on a stream: later work on that stream sees the data, and so does what waits for an event recorded there.
    static tensor adopt(managed_tensor t, stream_token on) {
        tensor_view const v = t.view();
        auto const written = pipeline::device_type::current()->record_event(v.device(), on);
        std::vector<std::int64_t> shape, strides;
        for (int i = 0; i < v.rank(); ++i) {
            shape.push_back(v.extent(i));
            strides.push_back(v.stride(i));
        }
        return {std::make_shared<managed_tensor>(std::move(t)), v.writable_data(), v.dtype(), std::move(shape), std::move(strides), v.device(), on,
                written};
    }
    // A copy of a consumer, in memory of a pool that is ordered by the stream of the copy.
    static tensor allocate(data_type type, shape_view shape, ferry::device at, stream_token on) {
        pipeline::counted.allocated = on;
        return pipeline::make(*pipeline::device_type::current(), type, {shape.begin(), shape.end()}, at, on);
    }
    // The stream of the pipeline already works on the next tensors: consumers wait for the event, not for the stream.
    static pipeline::device_type::event ready_on(tensor const& t) {
        ++pipeline::counted.events;
        return t.written;
    }
};
