// Columns exported as tensors and imported: sharing, copies and refusals; nulls are never lost.
#include <ferry/column.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>
#include <support/random_columns.hpp>
#include <support/sim_column.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using support::fails;

namespace {

device const gpu{device_type::cuda, 0};

template <class T>
column make(char const* format, std::vector<T> const& values, std::vector<unsigned char> const& validity = {},
            std::int64_t offset = 0) {
    struct storage {
        std::vector<T> values;
        std::vector<unsigned char> validity;
    };
    auto owner = std::make_shared<storage>(storage{values, validity});
    column_buffer const buffers[] = {
        {validity.empty() ? nullptr : owner->validity.data(), static_cast<std::int64_t>(validity.size())},
        {owner->values.data(), static_cast<std::int64_t>(values.size() * sizeof(T))}};
    auto const items =
        format[0] == 'b' ? static_cast<std::int64_t>(8 * values.size()) : static_cast<std::int64_t>(values.size());
    return ferry::make_column({.format = format, .length = items - offset, .offset = offset, .buffers = buffers},
                              owner);
}

template <class T>
std::vector<T> values(ferry::managed_tensor const& t) {
    std::vector<T> all;
    auto const v = t.as<T const, 1>();
    for (std::int64_t i = 0; i < v.extent(0); ++i) all.push_back(v(i));
    return all;
}

template <class T>
ferry::managed_tensor tensor(std::vector<T> v, std::int64_t stride = 1) {
    std::int64_t const extent = static_cast<std::int64_t>(v.size()) / stride;
    auto* const p = v.data();
    return ferry::make_managed(
        std::move(v), ferry::tensor_view{static_cast<void*>(p), ferry::dtype_of<T>, {&extent, 1}, {&stride, 1}});
}
ferry::managed_tensor flags(std::vector<unsigned char> v, ferry::data_type type = ferry::dtype_of<bool>) {
    std::int64_t const extent = static_cast<std::int64_t>(v.size());
    auto* const p = v.data();
    return ferry::make_managed(std::move(v), ferry::tensor_view{static_cast<void*>(p), type, {&extent, 1}});
}

}  // namespace

TEST_CASE("numbers without nulls are shared, read-only, from the slice's first item on, and outlive the column") {
    std::optional c{make<double>("g", {1, 2, 3, 4, 5})};
    auto const* const third = static_cast<double const*>(c->view().buffers()[1].data) + 2;
    auto [data, validity] = ferry::to_dlpack(c->slice(2, 3));
    c.reset();
    CHECK_FALSE(validity);
    CHECK(data.view().data() == third);
    CHECK(data.is_read_only());
    CHECK_FALSE(data.is_copied());
    CHECK(values<double>(data) == std::vector<double>{3, 4, 5});
    auto const alone = ferry::to_tensor(make<std::int64_t>("tsn:UTC", {7, 8}));
    CHECK(values<std::int64_t>(alone) == std::vector<std::int64_t>{7, 8});
    auto const half = ferry::to_tensor(make<std::uint16_t>("e", {0x3c00}));
    CHECK(half.dtype() == ferry::data_type{ferry::type_code::float_, 16});
    auto const empty = ferry::to_tensor(make<float>("f", {}));
    CHECK(empty.view().extent(0) == 0);
}

TEST_CASE("nulls are a second tensor and are never dropped silently; NaN is not null") {
    double const nan = std::numeric_limits<double>::quiet_NaN();
    auto const c = make<double>("g", {nan, 1, nan, 2, 3}, {0b11011});
    auto const [data, validity] = ferry::to_dlpack(c);
    REQUIRE(validity);
    CHECK(values<bool>(*validity) == std::vector<bool>{true, true, false, true, true});
    CHECK(validity->is_copied());
    CHECK_FALSE(validity->is_read_only());
    CHECK(std::isnan(values<double>(data)[0]));  // a value
    CHECK(data.view().data() == c.view().buffers()[1].data);
    fails(errc::dtype, [&] { static_cast<void>(ferry::to_tensor(c)); }, {"1 nulls", "ferry::to_dlpack(column)"});
    auto const without = ferry::to_dlpack(c.slice(3, 2));
    CHECK_FALSE(without.validity);
    auto const back = ferry::from_tensors(ferry::to_dlpack(c).data, std::move(ferry::to_dlpack(c).validity));
    CHECK(back.null_count() == 1);
    CHECK(support::shown(back.view()) == support::shown(c.view()));
    CHECK(support::shown(back.view())[0] != "null");
    CHECK(support::shown(back.view())[2] == "null");
}

TEST_CASE("bools are unpacked to bytes, from any bit offset") {
    auto const c = make<unsigned char>("b", {0b10110100, 0b01, 0xff, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde}, {}, 3);
    auto const [data, validity] = ferry::to_dlpack(c);
    CHECK_FALSE(validity);
    CHECK(data.is_copied());
    CHECK(data.dtype() == ferry::dtype_of<bool>);
    auto const all = values<bool>(data);
    for (std::int64_t i = 0; i < c.length(); ++i)
        CHECK(all[static_cast<std::size_t>(i)] == (support::shown(c.view(), i) == "true"));
    auto const back = ferry::from_tensors(ferry::to_tensor(c));
    CHECK(back.format() == "b");
    CHECK(support::shown(back.view()) == support::shown(c.view()));
}

TEST_CASE("a column that is not a sequence of numbers is refused with the reason") {
    support::column_maker maker{3};
    auto const refused = [&](char const* format, char const* why) {
        auto const c = maker.make(format, 4, 2);
        fails(errc::dtype, [&] { static_cast<void>(ferry::to_dlpack(c)); },
              {format[0] == 'd' && format[1] == 'i' ? "dictionary" : format, why});
    };
    refused("u", "differ in length");
    refused("vz", "differ in length");
    refused("d:5,2", "decimals");
    refused("+l", "nested");
    refused("+s", "nested");
    refused("w:3", "no DLPack data type");
    refused("tin", "no DLPack data type");
    refused("n", "no DLPack data type");
    refused("dictionary", "dictionary()");
}

TEST_CASE("strided tensors are compacted, and every byte of a validity that is not 0 is valid") {
    auto const c = ferry::from_tensors(tensor<std::int32_t>({1, -1, 2, -1, 3, -1}, 2),
                                       flags({2, 0, 255}, ferry::dtype_of<std::uint8_t>));
    CHECK(c.format() == "i");
    CHECK(c.null_count() == 1);
    CHECK(support::shown(c.view()) == std::vector<std::string>{"01000000", "null", "03000000"});
    auto plain = tensor<float>({1, 2});
    auto const* const first = plain.view().data();
    auto const shared = ferry::from_tensors(std::move(plain));
    CHECK(shared.view().buffers()[1].data == first);
    CHECK(shared.null_count() == 0);
    auto const whole = ferry::from_tensors(tensor<float>({1, 2}), flags({1, 1}));
    CHECK(whole.view().buffers()[0].data == nullptr);
    auto const none = ferry::from_tensors(tensor<float>({}), flags({}));
    CHECK(none.length() == 0);
}

TEST_CASE("tensors that cannot be a column are refused") {
    static float one = 1;
    std::int64_t const extent = 1;
    fails(errc::dtype,
          [&] {
              static_cast<void>(ferry::from_tensors(ferry::make_managed(
                  support::no_owner{},
                  ferry::tensor_view{static_cast<void*>(&one), {ferry::type_code::bfloat, 16}, {&extent, 1}})));
          },
          {"bfloat16"});
    fails(errc::dtype, [] { static_cast<void>(ferry::from_tensors(tensor<float>({1}), tensor<float>({1}))); },
          {"float32"});
    fails(errc::shape, [] { static_cast<void>(ferry::from_tensors(tensor<float>({1}), flags({1, 1}))); });
    fails(errc::consumed, [] { static_cast<void>(ferry::from_tensors(ferry::managed_tensor{})); });
    static std::uint8_t const bytes[] = {1};
    static std::int64_t const single[] = {1};
    fails(errc::device,
          [] {
              auto there = ferry::make_managed(support::no_owner{}, ferry::tensor_view{bytes, single, {}, gpu});
              static_cast<void>(ferry::from_tensors(tensor<float>({1}), std::move(there)));
          },
          {"different devices", "copy the validity"});
}

TEST_CASE("columns on a device stay there: bits are unpacked on the host, which waits for them") {
    support::sim_system sim{gpu};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const c = make<float>("f", {1, 2, 3, 4}, {0b1101});
    support::sim_columns others{sim, gpu, stream};
    auto gate = sim.close(stream);
    auto const there = others.put(c);
    fails(errc::no_backend, [&] { static_cast<void>(ferry::to_dlpack(there)); });
    std::thread opener{[&] {
        sim.until_host_waits();
        gate.open();
    }};
    auto tensors = ferry::to_dlpack(there, sim, stream);
    opener.join();
    CHECK(tensors.data.device() == gpu);
    CHECK(tensors.data.view().data() == there.view().buffers()[1].data);
    REQUIRE(tensors.validity);
    CHECK(tensors.validity->device() == gpu);
    auto const back = ferry::from_tensors(std::move(tensors.data), std::move(tensors.validity), sim, stream);
    CHECK(back.device() == gpu);
    auto const host = back.to(ferry::cpu, sim, stream);
    CHECK(support::shown(host.view()) == support::shown(c.view()));
    auto const bits = others.put(make<unsigned char>("b", {0x5a}));
    auto const again =
        ferry::from_tensors(ferry::to_tensor(bits, sim, stream), {}, sim, stream).to(ferry::cpu, sim, stream);
    CHECK(support::shown(again.view()) == support::shown(make<unsigned char>("b", {0x5a})));
    CHECK(sim.races() == 0);
    for (auto const which : {support::verb::allocate, support::verb::copy, support::verb::wait, support::verb::mark})
        for (int n = 1; n < 4; ++n) {
            auto const live = sim.live_bytes();
            sim.fail_at(which, n);
            try {
                static_cast<void>(ferry::from_tensors(ferry::to_tensor(bits, sim, stream), {}, sim, stream));
            } catch (ferry::error const& e) {
                CHECK(e.code() == errc::driver);
            }
            sim.fail_at(which, 0);
            sim.finish(stream);
            CHECK(sim.live_bytes() == live);
        }
}

TEST_CASE("an allocation that fails leaves nothing behind") {
    auto const c = make<double>("g", {1, 2, 3}, {0b101});
    CHECK(support::for_each_failing_allocation([&](int) {
              auto t = ferry::to_dlpack(c);
              static_cast<void>(ferry::from_tensors(std::move(t.data), std::move(t.validity)));
          }) > 4);
}
