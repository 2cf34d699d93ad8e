// ferry::shaped of a library whose arrays can own a foreign tensor.
#include <ferry/adapters/shaped.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <support/sim_array.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace {

using namespace support;

constexpr device gpu{device_type::cuda};

/// An array that owns a foreign tensor and stores the stream on which its data is ready.
template <bool HasBothForms>
struct device_array {
    std::shared_ptr<managed_tensor> tensor;
    stream_token ready;
};

template <class Array>
struct adopts_on_stream {
    static constexpr int max_rank = 4;
    static constexpr bool is_flat = false, is_handle = true;
    static int describe(Array const& a, std::int64_t* extents, std::int64_t* strides) {
        auto const v = a.tensor->view();
        for (int i = 0; i < v.rank(); ++i) extents[i] = v.extent(i), strides[i] = v.stride(i);
        return v.rank();
    }
    static ferry::data_type dtype(Array const& a) { return a.tensor->view().dtype(); }
    static void const* data(Array const& a) { return a.tensor->view().data(); }
    static ferry::device device(Array const& a) { return a.tensor->device(); }
    static stream_token ready_on(Array const& a) { return a.ready; }
    static Array adopt(managed_tensor m, stream_token ready) {
        return {std::make_shared<managed_tensor>(std::move(m)), ready};
    }
};

}  // namespace

template <>
struct ferry::shaped_traits<device_array<false>> : adopts_on_stream<device_array<false>> {};

template <>
struct ferry::shaped_traits<device_array<true>> : adopts_on_stream<device_array<true>> {
    using adopts_on_stream::adopt;
    static device_array<true> adopt(managed_tensor m) { return adopt(std::move(m), ferry::already_ready); }
};

TEST_CASE_TEMPLATE("R43: shaped_traits<T>::adopt receives the stream on which the data is ready", Array,
                   device_array<false>, device_array<true>) {
    sim_system sim{gpu};
    auto const theirs = sim.make_stream(gpu), first = sim.make_stream(gpu), second = sim.make_stream(gpu);
    auto const gate = sim.close(theirs), gate_of_first = sim.close(first);
    auto const a = make_array(sim, gpu, theirs, {4});
    auto const got = ferry::from_dlpack<ferry::shaped<Array>>(a, {.stream = first}, sim);
    CHECK(got.get().ready == first);
    auto const out = ferry::to_dlpack(got, {.stream = second}, sim);
    CHECK(!gate_of_first.is_open());
    CHECK(sim.is_ordered(first, second));
    gate.open();
    gate_of_first.open();
    sim.finish(second);
    CHECK(element(sim, out.view(), 3) == 4.0f);
    CHECK(sim.races() == 0);
}
