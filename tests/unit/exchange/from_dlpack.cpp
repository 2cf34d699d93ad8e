#include <ferry/exchange/from_dlpack.hpp>
#include <support/allocation_failure.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>
#include <support/sim_array.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace support;

constexpr device gpu{device_type::cuda}, gpu1{device_type::cuda, 1}, extension{device_type::ext_dev};

/// An exporter that records the request and ignores it.
struct stubborn {
    sim_array array;
    stream_token hands_out_on;
    request asked{};
    int times = 0;

    managed_tensor ferry_export(request const& req) {
        asked = req;
        ++times;
        ferry::tensor_view const v = ferry::view_of(array);
        return ferry::make_managed(sim_array{array}, [](sim_array& a) { return ferry::view_of(a); }, v.flags());
    }
};

/// A consumer with a current stream.
struct streaming {
    static inline stream_token current{};
    managed_tensor tensor;
};

/// Stores the stream on which it is ready, and can be exported.
struct remembering {
    std::shared_ptr<managed_tensor> tensor;
    stream_token ready;
};

/// Allocates the memory of copies.
struct allocating {
    std::vector<float> values;
    std::vector<std::int64_t> shape;
    device where = ferry::cpu;
    static inline device gives = ferry::cpu;
    static inline std::int64_t least = 0;  // smallest extent
    static inline bool fails_to_allocate = false, fails_to_adopt = false;
    static inline int allocations = 0, adoptions = 0;
    managed_tensor tensor;
};

struct padded_bytes {
    managed_tensor tensor;
};

/// Supports padded elements; `allocate` returns packed memory.
struct packing {
    std::vector<unsigned char> bytes;
    std::vector<std::int64_t> shape;
    managed_tensor tensor;
};

}  // namespace

template <>
struct ferry::array_traits<streaming> {
    static streaming adopt(managed_tensor m) { return {std::move(m)}; }
    static stream_token current_stream(device) { return streaming::current; }
};

template <>
struct ferry::array_traits<remembering> {
    static tensor_view view(remembering const& a) { return a.tensor->view(); }
    static remembering share(remembering const& a) { return a; }
    static remembering adopt(managed_tensor m, stream_token ready) {
        return {std::make_shared<managed_tensor>(std::move(m)), ready};
    }
    static stream_token ready_on(remembering const& a) { return a.ready; }
};

template <>
struct ferry::array_traits<allocating> {
    static tensor_view view(allocating& a) { return {a.values.data(), a.shape, {}, a.where}; }
    static tensor_view view(allocating const& a) { return {a.values.data(), a.shape, {}, a.where}; }
    static allocating allocate(data_type, shape_view shape, device) {
        if (allocating::fails_to_allocate) throw std::runtime_error{"allocate"};
        ++allocating::allocations;
        allocating a;
        for (auto const extent : shape) a.shape.push_back(std::max(extent, allocating::least));
        std::int64_t count = 0;
        static_cast<void>(element_count(a.shape, count));
        a.values.resize(static_cast<std::size_t>(count));
        a.where = allocating::gives;
        return a;
    }
    static allocating adopt(managed_tensor m) {
        if (allocating::fails_to_adopt) throw std::runtime_error{"adopt"};
        ++allocating::adoptions;
        allocating a;
        a.tensor = std::move(m);
        return a;
    }
};

template <>
struct ferry::array_traits<padded_bytes> {
    static constexpr bool padded_elements = true, vector_elements = true;
    static padded_bytes adopt(managed_tensor m) { return {std::move(m)}; }
};

template <>
struct ferry::array_traits<packing> {
    static constexpr bool padded_elements = true;
    static tensor_view view(packing& a) { return {a.bytes.data(), {type_code::uint, 4}, a.shape}; }
    static packing adopt(managed_tensor m) { return {{}, {}, std::move(m)}; }
    static packing allocate(data_type type, shape_view shape, device) {
        std::int64_t count = 0, bytes = 0;
        static_cast<void>(element_count(shape, count) && byte_count(count, type, false, bytes));
        return {std::vector<unsigned char>(static_cast<std::size_t>(bytes)), {shape.begin(), shape.end()}, {}};
    }
};

TEST_CASE("R6: an imported raw struct is released exactly once") {
    float data[] = {1, 2, 3};
    counting_producer p{data, float32, {3}};
    {
        auto const got = ferry::from_dlpack<taken>(&p.raw);
        CHECK(got.tensor.as<float, 1>()(2) == 3.0f);
        CHECK(p.deleter_calls == 0);
    }
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R8, R15: an imported legacy struct is read-only and is released exactly once") {
    float data[] = {1, 2, 3};
    legacy_producer p{data, float32, {3}};
    {
        auto const got = ferry::from_dlpack<taken>(&p.raw);
        CHECK(got.tensor.is_read_only());
        legacy_producer q{data, float32, {3}};
        auto const copy = ferry::from_dlpack<taken>(&q.raw, {.copy = copy_policy::always});
        CHECK(!copy.tensor.is_read_only());
        CHECK(q.deleter_calls == 1);
    }
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R2: an invalid struct is released exactly once, and the error has the caller's source location") {
    float data[] = {1};
    counting_producer p{data, float32, {1}};
    p.raw.version.major = 2;
    auto const line = __LINE__ + 2;
    try {
        (void)ferry::from_dlpack<taken>(&p.raw);
        FAIL_CHECK("nothing was thrown");
    } catch (ferry::error const& e) {
        CHECK(e.code() == errc::version);
        CHECK(e.where().line() == line);
    }
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R21: short vectors are refused for consumers without vector elements, and accepted by others") {
    float data[4] = {};
    counting_producer p{data, {2, 32, 4}, {1}};
    fails(errc::dtype, [&] { (void)ferry::from_dlpack<taken>(&p.raw); }, {"4 lanes", "R21", "uint8"});
    CHECK(p.deleter_calls == 1);
    counting_producer q{data, {2, 32, 4}, {1}};
    CHECK(ferry::from_dlpack<padded_bytes>(&q.raw).tensor.dtype().lanes == 4);
}

TEST_CASE("R13: padded elements are packed for consumers that do not support them, and shared with others") {
    unsigned char nibbles[] = {1, 2, 3, 4};
    counting_producer p{nibbles, {1, 4, 1}, {4}};
    p.raw.flags = 4;
    {
        auto const got = ferry::from_dlpack<taken>(&p.raw, {});
        CHECK(got.tensor.is_copied());
        CHECK(!got.tensor.view().is_padded());
        CHECK(got.tensor.view().nbytes() == 2);
        CHECK(static_cast<unsigned char const*>(got.tensor.view().data())[0] == 0x21);
        CHECK(static_cast<unsigned char const*>(got.tensor.view().data())[1] == 0x43);
    }
    CHECK(p.deleter_calls == 1);
    counting_producer q{nibbles, {1, 4, 1}, {4}};
    q.raw.flags = 4;
    auto const as_it_is = ferry::from_dlpack<padded_bytes>(&q.raw);
    CHECK(as_it_is.tensor.view().data() == nibbles);
    counting_producer r{nibbles, {1, 4, 1}, {4}};
    r.raw.flags = 4;
    fails(errc::copy_needed, [&] { (void)ferry::from_dlpack<taken>(&r.raw, {.copy = copy_policy::never}); });
    CHECK(r.deleter_calls == 1);
    counting_producer s{nibbles, {1, 4, 1}, {4}};
    s.raw.flags = 4;
    fails(errc::copy_needed, [&] { (void)ferry::from_dlpack<taken>(&s.raw); }, {"ferry::host_only"});
    CHECK(s.deleter_calls == 1);
}

TEST_CASE("R13: a copy in memory of allocate has the packing of that memory") {
    unsigned char nibbles[] = {1, 2, 3, 4};
    counting_producer p{nibbles, {1, 4, 1}, {4}};
    p.raw.flags = 4;
    auto const got = ferry::from_dlpack<packing>(&p.raw, {.copy = copy_policy::always});
    CHECK(!got.tensor.view().is_padded());
    CHECK(static_cast<unsigned char const*>(got.tensor.view().data())[1] == 0x43);
}

TEST_CASE("R43: a producer orders the requested stream, on which the consumer queues its own copy") {
    sim_system sim{gpu, gpu1};
    auto const ours = sim.make_stream(device_type::cuda);
    auto const gate = sim.close(ours);
    stubborn p{make_array(sim, gpu, ours, {4}), {}};
    auto const got = ferry::from_dlpack<taken>(p, {.device = gpu1, .stream = ours}, sim);
    CHECK(p.asked.stream == ours);
    p.array = {};
    CHECK(!gate.is_open());
    CHECK(sim.calls(verb::order) + sim.calls(verb::wait) == 0);
    CHECK(sim.races() == 0);
    gate.open();
    sim.finish(ours);
    CHECK(sim.reads_after_release() == 0);  // R50
    CHECK(element(sim, got.tensor.view(), 3) == 4.0f);
}

TEST_CASE("R43: an array imported on an explicit stream is exported ordered after that stream") {
    for (bool const copies : {false, true}) {
        sim_system sim{gpu};
        auto const theirs = sim.make_stream(gpu), first = sim.make_stream(gpu), second = sim.make_stream(gpu);
        auto const gate = sim.close(theirs), gate_of_first = sim.close(first);
        auto const a = make_array(sim, gpu, theirs, {4});
        auto const copy = copies ? copy_policy::always : copy_policy::if_needed;
        auto const got = ferry::from_dlpack<remembering>(a, {.copy = copy, .stream = first}, sim);
        CHECK(got.ready == first);
        auto const out = ferry::to_dlpack(got, {.stream = second}, sim);
        CHECK(!gate_of_first.is_open());
        CHECK(sim.is_ordered(first, second));
        gate.open();
        gate_of_first.open();
        sim.finish(second);
        CHECK(element(sim, out.view(), 3) == 4.0f);
        CHECK(sim.races() == 0);
    }
}

TEST_CASE("R43: adopt receives the stream on which the data is ready, for every kind of producer") {
    sim_system sim{gpu, extension};
    auto const theirs = sim.make_stream(gpu), ours = sim.make_stream(gpu);
    auto const a = make_array(sim, gpu, theirs, {4});
    auto const ready = [&](auto&& from, request const& req) {
        return ferry::from_dlpack<remembering>(from, req, sim).ready;
    };
    CHECK(ready(a, {}) == stream_token::cuda_legacy_default(0));
    CHECK(ready(a, {.stream = ferry::already_ready}) == theirs);  // no stream was ordered
    CHECK(ready(a, {.copy = copy_policy::always, .stream = ferry::already_ready}) == theirs);
    CHECK(ready(a, {.device = ferry::cpu}) == ferry::already_ready);
    stubborn p{a, {}};
    CHECK(ready(p, {.stream = ours}) == ours);
    CHECK(ready(p, {.stream = ferry::already_ready}) == ferry::already_ready);  // passed to the exporter
    CHECK(ready(p, {.device = ferry::cpu}) == ferry::already_ready);
    auto const taken_from = [&](request const& req, stream_token on) {
        return ferry::from_dlpack<remembering>(ferry::to_dlpack(a, {.stream = ferry::already_ready}, sim), req, sim, on)
            .ready;
    };
    CHECK(taken_from({.stream = ours}, theirs) == ours);
    CHECK(taken_from({.stream = ferry::already_ready}, theirs) == theirs);
    CHECK(taken_from({.stream = ours}, ferry::already_ready) == ours);
    auto const on_extension = sim.make_stream(extension);
    CHECK(ready(make_array(sim, extension, on_extension, {4}), {}) == ferry::already_ready);  // the host has waited
    float data[] = {1};
    counting_producer host{data, float32, {1}};
    CHECK(ferry::from_dlpack<remembering>(&host.raw).ready == ferry::already_ready);
}

TEST_CASE("R48: a stream of another family has no effect on a producer that ignored the device") {
    sim_system sim{gpu, extension};
    auto const ours = sim.make_stream(device_type::ext_dev);
    auto const gate = sim.close(stream_token::cuda_legacy_default());
    stubborn p{make_array(sim, gpu, stream_token::cuda_legacy_default(), {4}), {}};
    auto const got = ferry::from_dlpack<taken>(p, {.device = extension, .stream = ours}, sim);
    CHECK(sim.is_ordered(stream_token::cuda_legacy_default(), ours));
    CHECK(sim.races() == 0);
    gate.open();
    sim.finish(ours);
    CHECK(element(sim, got.tensor.view(), 1) == 2.0f);
}

TEST_CASE("R44: a producer that ignored the device uses a default stream as that of its own device") {
    sim_system sim{gpu, gpu1};
    auto const theirs = stream_token::cuda_legacy_default(0), ours = stream_token::cuda_legacy_default(1);
    auto const gate = sim.close(theirs);
    stubborn p{make_array(sim, gpu, theirs, {4}), {}};
    auto const got = ferry::from_dlpack<taken>(p, {.device = gpu1, .stream = ours}, sim);
    CHECK(sim.is_ordered(theirs, ours));
    CHECK(sim.races() == 0);
    gate.open();
    sim.finish(ours);
    CHECK(element(sim, got.tensor.view(), 3) == 4.0f);
}

TEST_CASE(
    "R44: without a stream, an exporter's tensor is ready on the default stream, which the import orders") {
    sim_system sim{gpu};
    streaming::current = sim.make_stream(device_type::cuda);
    stubborn p{make_array(sim, gpu, stream_token::cuda_legacy_default(), {4}), {}};
    auto const got = ferry::from_dlpack<streaming>(p, request{}, sim);
    CHECK(p.asked.stream.is_none());
    CHECK(sim.is_ordered(stream_token::cuda_legacy_default(), streaming::current));
    auto const told = ferry::from_dlpack<streaming>(p, {.device = gpu}, sim);
    CHECK(p.asked.stream == streaming::current);
    CHECK(sim.calls(verb::order) == 1);
}

TEST_CASE("R48: the current stream of a consumer is not passed with device=cpu") {
    streaming::current = stream_token::cuda_legacy_default();
    float data[] = {1, 2};
    counting_producer p{data, float32, {2}};
    auto const got = ferry::from_dlpack<streaming>(&p.raw);
    CHECK(got.tensor.as<float, 1>()(1) == 2.0f);
}

TEST_CASE("R39, R53: pinned memory without pending work that no back end reaches is copied by the host") {
    for (int const type : {3, 11, 13}) {
        CAPTURE(type);
        float data[] = {1, 2};
        counting_producer p{data, float32, {2}};
        p.on(type);
        ferry::request const copied{.device = ferry::cpu, .copy = copy_policy::always};
        auto const got =
            ferry::from_dlpack<taken>(ferry::from_dlpack(&p.raw), copied, ferry::host_only, ferry::already_ready);
        CHECK(p.deleter_calls == 1);
        data[0] = 7;
        CHECK(got.tensor.device() == ferry::cpu);
        CHECK(got.tensor.is_copied());
        CHECK(got.tensor.as<float, 1>()(0) == 1.0f);

        // Pending work requires a wait, and so a back end.
        p.on(type);
        auto const pending = type == 11 ? stream_token::rocm_default() : stream_token::cuda_legacy_default();
        fails(errc::no_backend, [&] {
            (void)ferry::from_dlpack<taken>(ferry::from_dlpack(&p.raw), copied, ferry::host_only, pending);
        });
        CHECK(p.deleter_calls == 2);
    }
}

TEST_CASE("R40: a raw struct on a device without a back end is refused and released once") {
    float data[] = {1};
    counting_producer p{data, float32, {1}};
    p.on(2);
    fails(errc::no_backend,
          [&] {
              (void)ferry::from_dlpack<taken>(ferry::from_dlpack(&p.raw), {.device = ferry::cpu}, ferry::host_only,
                                              ferry::already_ready);
          },
          {"<ferry/cuda.hpp>"});
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R53: copies are made in memory of array_traits::allocate, if defined") {
    float data[] = {1, 2, 3, 4, 5, 6};
    counting_producer p{data, float32, {2, 3}, {1, 2}};
    allocating::allocations = 0;
    auto const got = ferry::from_dlpack<allocating>(&p.raw, {.copy = copy_policy::always});
    CHECK(allocating::allocations == 1);
    CHECK(got.tensor.is_copied());
    CHECK(got.tensor.as<float, 2>()(0, 1) == 3.0f);
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R26, R53: memory that allocate returns with another shape or dtype is refused, also for empty tensors") {
    std::int32_t data[] = {1, 2};
    for (std::int64_t const n : {0, 2}) {
        counting_producer integers{data, DLDataType{0, 32, 1}, {n}};
        fails(errc::dtype, [&] { (void)ferry::from_dlpack<allocating>(&integers.raw, {.copy = copy_policy::always}); },
              {"float32", "int32"});
        CHECK(integers.deleter_calls == 1);
        float numbers[] = {1, 2};
        counting_producer p{numbers, float32, {n}};
        allocating::least = 3;
        fails(errc::shape, [&] { (void)ferry::from_dlpack<allocating>(&p.raw, {.copy = copy_policy::always}); },
              {"the destination's shape is (3)"});
        allocating::least = 0;
        CHECK(p.deleter_calls == 1);
    }
}

TEST_CASE("R41: memory that allocate returns on a device other than the requested one is refused") {
    sim_system sim{gpu};
    float data[] = {1, 2};
    counting_producer p{data, float32, {2}};
    fails(errc::device, [&] { (void)ferry::from_dlpack<allocating>(&p.raw, {.device = gpu}, sim); },
          {"returned memory on cpu:0", "expected cuda:0"});
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R62: exceptions of allocate and adopt are propagated, and the tensor is released exactly once") {
    float data[] = {1, 2};
    {
        counting_producer p{data, float32, {2}};
        allocating::fails_to_allocate = true;
        CHECK_THROWS_AS((void)ferry::from_dlpack<allocating>(&p.raw, {.copy = copy_policy::always}),
                        std::runtime_error);
        allocating::fails_to_allocate = false;
        CHECK(p.deleter_calls == 1);
    }
    for (auto const policy : {copy_policy::if_needed, copy_policy::always}) {
        counting_producer p{data, float32, {2}};
        allocating::fails_to_adopt = true;
        CHECK_THROWS_AS((void)ferry::from_dlpack<allocating>(&p.raw, {.copy = policy}), std::runtime_error);
        allocating::fails_to_adopt = false;
        CHECK(p.deleter_calls == 1);
    }
}

TEST_CASE("R68: a raw struct is released exactly once, whichever allocation fails") {
    float data[] = {1, 2};
    for (auto const policy : {copy_policy::if_needed, copy_policy::always}) {
        bool once = true;
        for_each_failing_allocation([&](int) {
            counting_producer p{data, float32, {2}};
            try {
                auto const got = ferry::from_dlpack<allocating>(&p.raw, {.copy = policy});
            } catch (std::bad_alloc const&) {
                once = once && p.deleter_calls == 1;
                throw;
            }
            once = once && p.deleter_calls == 1;
        });
        CHECK(once);
    }
}

TEST_CASE("R68: an exporter's tensor is released exactly once, whichever operation of the back end fails") {
    for (auto const which : {verb::allocate, verb::copy, verb::wait}) {
        sim_system sim{gpu};
        stubborn p{make_array(sim, gpu, stream_token::cuda_legacy_default(), {4}), {}};
        sim.fail_at(which, 1);
        fails(errc::driver, [&] { (void)ferry::from_dlpack<taken>(p, {.device = ferry::cpu}, sim); });
        CHECK(p.array.memory.use_count() == 1);
        CHECK(sim.live_bytes() == 16);
    }
}
