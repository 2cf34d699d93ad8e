#include <ferry/base/device.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>

using ferry::device;
using ferry::device_type;
using ferry::is_same_device;

namespace {
device_type number(std::int32_t n) { return static_cast<device_type>(n); }
}  // namespace

TEST_CASE("R34: is_known accepts exactly DLPack's device types") {
    std::set<std::int32_t> const named{1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};
    for (std::int32_t n = -3; n < 300; ++n) {
        INFO("type ", n);
        CHECK(is_known(number(n)) == named.contains(n));
        CHECK((std::strcmp(name(number(n)), "unknown") != 0) == named.contains(n));
    }
    CHECK_FALSE(is_known(number(INT32_MIN)));
    CHECK_FALSE(is_known(number(INT32_MAX)));
}

TEST_CASE("R34: the names of device types are distinct") {
    std::set<std::string> names;
    for (std::int32_t n = 0; n < 30; ++n) names.insert(name(number(n)));
    CHECK(names.size() == 20);  // 19 and "unknown"
    CHECK(std::string{"cuda_managed"} == name(device_type::cuda_managed));
    CHECK(std::string{"trainium"} == name(number(18)));
}

TEST_CASE("R39: device types 1, 3, 11 and 13 are host-accessible") {
    for (std::int32_t n = -1; n < 30; ++n) {
        INFO("type ", n);
        bool const readable = n == 1 || n == 3 || n == 11 || n == 13;
        CHECK(is_host_accessible(number(n)) == readable);
        CHECK(is_host_accessible(device{number(n), 5}) == readable);
    }
}

TEST_CASE("CUDA streams order device types 2, 3 and 13; ROCm streams order 10 and 11") {
    for (std::int32_t n = -1; n < 30; ++n) {
        INFO("type ", n);
        CHECK(uses_cuda_streams(number(n)) == (n == 2 || n == 3 || n == 13));
        CHECK(uses_rocm_streams(number(n)) == (n == 10 || n == 11));
    }
}

TEST_CASE("R23: data is a handle, not an address, on OpenCL, Vulkan, Metal and WebGPU") {
    for (std::int32_t n = 1; n < 22; ++n) {
        INFO("type ", n);
        CHECK(is_addressable(number(n)) == !(n == 4 || n == 7 || n == 8 || n == 15));
    }
}

TEST_CASE("R35: is_same_device ignores ids that have no meaning") {
    for (std::int32_t n : {1, 3, 11, 13}) {
        INFO("type ", n);
        CHECK(ignores_id(number(n)));
        CHECK(is_same_device({number(n), 0}, {number(n), 7}));
        CHECK_FALSE(device{number(n), 0} == device{number(n), 7});
    }
    CHECK_FALSE(ignores_id(device_type::cuda));
    CHECK_FALSE(is_same_device({device_type::cuda, 0}, {device_type::cuda, 1}));
    CHECK(is_same_device({device_type::cuda, 1}, {device_type::cuda, 1}));
    CHECK_FALSE(is_same_device({device_type::cuda, 0}, {device_type::cuda_managed, 0}));
}

TEST_CASE("a device converts to the C struct and back, for any numbers") {
    for (std::int32_t n : {1, 2, 13, 21, 0, -1, 4711}) {
        INFO("type ", n);
        device const d{number(n), -2};
        DLDevice const c = d.to_abi();
        CHECK(static_cast<std::int32_t>(c.device_type) == n);
        CHECK(c.device_id == -2);
        CHECK(device{c} == d);
    }
    CHECK(device{} == ferry::cpu);
    CHECK(device{device_type::cuda} == device{device_type::cuda, 0});
}
