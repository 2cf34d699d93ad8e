#include <ferry/space/copy.hpp>
#include <support/fails.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <cstdint>

namespace {

using namespace support;

constexpr std::int64_t six[] = {2, 3};

/// Copies immediately, and reports whether the copy is complete.
struct says_so {
    bool has_run;
    int waits = 0;
    [[nodiscard]] bool reaches(device) const { return true; }
    [[nodiscard]] auto allocate(device d, std::size_t n, stream_token on) {
        return ferry::host_only.allocate(d, n, on);
    }
    [[nodiscard]] bool copy(ferry::copy_plan const& plan, void* dst, device, void const* src, device, stream_token) {
        ferry::copy_on_host(plan, dst, src);
        return has_run;
    }
    void order(stream_token, stream_token) {}
    void wait(stream_token) { ++waits; }
};

/// Reports the failure of one of its operations as a result, as a back end without exceptions does.
struct returning {
    char fails_in = ' ';  // 'c': copy, 'w': wait
    int waits = 0;
    [[nodiscard]] ferry::result<> outcome(char of) const {
        if (fails_in == of) return ferry::error{errc::driver, "device", of == 'c' ? "copy failed" : "wait failed"};
        return {};
    }
    [[nodiscard]] bool reaches(device) const { return true; }
    [[nodiscard]] ferry::result<ferry::buffer<>> allocate(device, std::size_t n, stream_token) {
        return ferry::buffer<>::try_allocate(n);
    }
    [[nodiscard]] ferry::result<> copy(ferry::copy_plan const& plan, void* dst, device, void const* src, device,
                                       stream_token) const {
        ferry::copy_on_host(plan, dst, src);
        return outcome('c');
    }
    [[nodiscard]] ferry::result<> order(stream_token, stream_token) const { return {}; }
    [[nodiscard]] ferry::result<> wait(stream_token) { return ++waits, outcome('w'); }
};

void refuses(errc code, tensor_view const& dst, tensor_view const& src, std::initializer_list<char const*> texts = {}) {
    both_fail(code, [&] { (void)ferry::copy(dst, src); }, [&] { return ferry::try_copy(dst, src); }, texts);
}

}  // namespace

TEST_CASE("R23: copy supports all strides and returns the number of bytes") {
    float from[] = {1, 2, 3, 4, 5, 6}, to[6] = {};
    std::int64_t const transposed[] = {1, 2};
    CHECK(ferry::copy(tensor_view{to, six}, tensor_view{from, six, transposed}) == 24);
    CHECK(to[1] == 3.0f);
    CHECK(to[5] == 6.0f);
}

TEST_CASE("R29: copy rejects repeated or read-only destinations and other shapes and types") {
    float from[6] = {}, to[6] = {};
    std::int64_t const repeated[] = {0, 1}, other[] = {3, 2};
    tensor_view const src{from, six};
    refuses(errc::strides, {to, six, repeated}, src, {"R29"});
    refuses(errc::read_only, {static_cast<float const*>(to), six}, src, {"R11"});
    refuses(errc::shape, {to, other}, src);
    int integers[6] = {};
    refuses(errc::dtype, {integers, six}, src);
}

TEST_CASE("R40: a copy of device memory requires a back end") {
    float here[6] = {};
    refuses(errc::no_backend, {here, six}, {here, six, {}, device_type::cuda}, {"ferry::copy", "<ferry/cuda.hpp>"});
    refuses(errc::no_backend, {here, six, {}, device_type::ext_dev}, {here, six});
}

TEST_CASE("try_copy returns the number of bytes") {
    float from[] = {1, 2, 3, 4, 5, 6}, to[6] = {};
    auto const bytes = ferry::try_copy(tensor_view{to, six}, tensor_view{from, six});
    REQUIRE(bytes.has_value());
    CHECK(*bytes == 24);
    CHECK(to[5] == 6.0f);
}

TEST_CASE("an error that an operation of a back end returns is the error of the copy") {
    static_assert(ferry::back_end<returning>);
    float from[] = {1, 2, 3, 4, 5, 6}, to[6] = {};
    auto const on = stream_token::cuda_legacy_default();
    tensor_view const dst{to, six}, src{from, six, {}, device_type::cuda};
    for (char const operation : {'c', 'w'}) {
        returning b{operation};
        both_fail(
            errc::driver, [&] { (void)ferry::copy(dst, src, b, on); }, [&] { return ferry::try_copy(dst, src, b, on); },
            {operation == 'c' ? "device: copy failed" : "device: wait failed"});
        CHECK(b.waits == (operation == 'c' ? 0 : 2));
    }
    returning b;
    CHECK(ferry::copy(dst, src, b, on) == 24);
    CHECK(*ferry::try_copy(dst, src, b, on) == 24);
    CHECK(b.waits == 2);
}

TEST_CASE("try_copy returns a ferry::error that the back end throws") {
    struct throwing : says_so {
        void wait(stream_token) { throw ferry::error{errc::context_lost, "device", "the device is lost"}; }
    } b{{false}};
    float from[6] = {}, to[6] = {};
    auto const bytes = ferry::try_copy(tensor_view{to, six}, tensor_view{from, six, {}, device_type::cuda}, b,
                                       stream_token::cuda_legacy_default());
    REQUIRE_FALSE(bytes.has_value());
    CHECK(bytes.error().code() == errc::context_lost);
}

TEST_CASE("R43: copy blocks until the data is complete, after the earlier work of its stream") {
    for (auto const type :
         {device_type::cuda, device_type::cuda_host, device_type::cuda_managed, device_type::ext_dev}) {
        CAPTURE(ferry::name(type));
        sim_system sim{type};
        auto const stream = sim.make_stream(type);
        auto const gate = sim.close(stream);
        auto const memory = sim.make_memory(type, 24);
        float const values[] = {1, 2, 3, 4, 5, 6};
        sim.write(stream, memory.block(), values, sizeof values);
        float to[6] = {};
        std::thread other_thread{[&] {
            sim.until_host_waits();
            gate.open();
        }};
        ferry::copy(tensor_view{to, six}, tensor_view{static_cast<float*>(memory.data()), six, {}, type}, sim, stream);
        CHECK(to[5] == 6.0f);
        CHECK(sim.calls(verb::wait) == 1);
        CHECK(sim.races() == 0);
        other_thread.join();
    }
}

TEST_CASE("R43: a copy to a device is complete on return, and its host memory may be reused") {
    sim_system sim{device_type::ext_dev};
    auto const stream = sim.make_stream(device_type::ext_dev);
    auto const memory = sim.make_memory(device_type::ext_dev, 24);
    float values[] = {1, 2, 3, 4, 5, 6};
    ferry::copy(tensor_view{static_cast<float*>(memory.data()), six, {}, device_type::ext_dev},
                tensor_view{values, six}, sim, stream);
    CHECK(sim.read<float>(static_cast<float*>(memory.data()) + 5) == 6.0f);
}

TEST_CASE("R43: copy waits unless the back end reports that the copy is complete") {
    float from[] = {1, 2, 3, 4, 5, 6}, to[6] = {};
    auto const on = stream_token::cuda_legacy_default();
    device const gpu{device_type::cuda};
    for (bool const has_run : {true, false}) {
        says_so b{has_run};
        static_assert(ferry::back_end<says_so>);
        CHECK(ferry::copy(tensor_view{to, six}, tensor_view{from, six, {}, gpu}, b, on) == 24);
        CHECK(to[5] == 6.0f);
        CHECK(b.waits == (has_run ? 0 : 1));
        ferry::destination in{ferry::host_space{}, b};
        CHECK(ferry::copy(tensor_view{to, six}, tensor_view{from, six, {}, gpu}, in, on) == 24);
        CHECK(b.waits == (has_run ? 0 : 2));
    }
}

TEST_CASE("R44: a null stream is rejected before work is queued; without a stream nothing is waited for") {
    sim_system sim{device_type::cuda};
    auto const memory = sim.make_memory(device_type::cuda, 24);
    float values[6] = {};
    tensor_view const there{static_cast<float*>(memory.data()), six, {}, device_type::cuda}, here{values, six};
    both_fail(
        errc::stream, [&] { (void)ferry::copy(there, here, sim, stream_token::from_cuda_handle(0)); },
        [&] { return ferry::try_copy(there, here, sim, stream_token::from_cuda_handle(0)); }, {"R44"});
    CHECK(sim.calls() == 0);
    CHECK(ferry::copy(there, here, sim) == 24);
    CHECK(sim.calls(verb::wait) == 0);
}

TEST_CASE("R26: an empty copy does not call the back end") {
    sim_system sim{device_type::cuda};
    std::int64_t const nothing[] = {0, 3};
    tensor_view const there{static_cast<float*>(nullptr), nothing, {}, device_type::cuda},
        here{static_cast<float*>(nullptr), nothing};
    CHECK(ferry::copy(here, there, sim, stream_token::cuda_legacy_default()) == 0);
    CHECK(sim.calls() == 0);
}
