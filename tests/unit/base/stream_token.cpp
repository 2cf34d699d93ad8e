#include <ferry/base/stream_token.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>

using ferry::device_type;
using ferry::stream_token;
using kind = ferry::stream_token::kind;

namespace {
CUstream_st* cuda_stream(std::uintptr_t n) { return reinterpret_cast<CUstream_st*>(n); }
ihipStream_t* rocm_stream(std::uintptr_t n) { return reinterpret_cast<ihipStream_t*>(n); }
}  // namespace

TEST_CASE("R43: the tokens for no stream and no synchronisation identify no stream, and differ") {
    CHECK(stream_token{}.is_none());
    CHECK_FALSE(stream_token{}.names_stream());
    CHECK(stream_token::no_sync().is_no_sync());
    CHECK_FALSE(stream_token::no_sync().is_none());
    CHECK_FALSE(stream_token::no_sync().names_stream());
    CHECK(stream_token{} != stream_token::no_sync());
    CHECK(stream_token{}.family() == device_type::cpu);
}

TEST_CASE("R44: CUDA stream 1 is the legacy default stream, 2 the per-thread default stream, others are handles") {
    CHECK(stream_token::cuda_legacy_default().native_handle() == 1);
    CHECK(stream_token::cuda_per_thread_default().native_handle() == 2);
    CHECK(stream_token::cuda(cuda_stream(1)) == stream_token::cuda_legacy_default());
    CHECK(stream_token::cuda(cuda_stream(2)) == stream_token::cuda_per_thread_default());
    CHECK(stream_token::from_cuda_handle(1).which() == kind::legacy_default);
    CHECK(stream_token::from_cuda_handle(static_cast<void*>(cuda_stream(1))).which() == kind::legacy_default);
    CHECK(stream_token::from_cuda_handle(2).which() == kind::per_thread_default);
    auto const handle = stream_token::cuda(cuda_stream(0x1000));
    CHECK(handle.which() == kind::handle);
    CHECK(handle.native_handle() == 0x1000);
    CHECK(handle.family() == device_type::cuda);
    CHECK(handle.names_stream());
    CHECK(handle == stream_token::from_cuda_handle(0x1000));
    CHECK(handle != stream_token::from_cuda_handle(0x1001));
}

TEST_CASE("R44: a CUDA handle that is null at run time is ambiguous, and no exchange accepts it") {
    auto const null = stream_token::cuda(cuda_stream(0));
    CHECK(null.is_ambiguous());
    CHECK_FALSE(fits(null, device_type::cuda));
    CHECK_FALSE(stream_token::cuda_legacy_default().is_ambiguous());
    CHECK_FALSE(stream_token{}.is_ambiguous());
}

TEST_CASE("R45: ROCm's default stream is 0; 1 and 2 are handles") {
    CHECK(stream_token::rocm_default().native_handle() == 0);
    CHECK_FALSE(stream_token::rocm_default().is_ambiguous());
    CHECK(fits(stream_token::rocm_default(), device_type::rocm));
    CHECK(stream_token::rocm(rocm_stream(2)).which() == kind::handle);
    CHECK(stream_token::rocm_handle(static_cast<void*>(rocm_stream(2))) == stream_token::rocm(rocm_stream(2)));
    CHECK(stream_token::rocm(rocm_stream(0x2000)).native_handle() == 0x2000);
    CHECK(stream_token::rocm(rocm_stream(0x2000)) != stream_token::cuda(cuda_stream(0x2000)));
}

TEST_CASE("R44, R45, R46: a token is accepted for the memory that its streams order, and for no other") {
    auto const cuda = stream_token::cuda_legacy_default();
    auto const rocm = stream_token::rocm_default();
    auto const native = stream_token::native(device_type::ext_dev, 5);
    for (std::int32_t n = 1; n < 22; ++n) {
        INFO("type ", n);
        auto const type = static_cast<device_type>(n);
        CHECK(fits(stream_token{}, type));
        CHECK(fits(stream_token::no_sync(), type));
        CHECK(fits(cuda, type) == (n == 2 || n == 3 || n == 13));
        CHECK(fits(rocm, type) == (n == 10 || n == 11));
        CHECK(fits(native, type) == (n == 12));
        CHECK_FALSE(fits(stream_token::native(device_type::cpu, 5), type));
    }
}

TEST_CASE("R44: a default stream without a device gets the device of the exchange; one with a device keeps it") {
    using ferry::device;
    constexpr device gpu0{device_type::cuda, 0}, gpu1{device_type::cuda, 1}, pinned{device_type::cuda_host, 1},
        amd1{device_type::rocm, 1};
    struct row {
        stream_token unsaid, first, second;
        device one;
    };
    for (auto const& r :
         {row{stream_token::cuda_legacy_default(), stream_token::cuda_legacy_default(0),
              stream_token::cuda_legacy_default(1), gpu1},
          row{stream_token::cuda_per_thread_default(), stream_token::cuda_per_thread_default(0),
              stream_token::cuda_per_thread_default(1), gpu1},
          row{stream_token::rocm_default(), stream_token::rocm_default(0), stream_token::rocm_default(1), amd1}}) {
        CHECK_FALSE(r.unsaid.has_device());
        CHECK(r.first.has_device());
        CHECK(r.unsaid.device_id() == 0);
        CHECK(r.second.device_id() == 1);
        for (auto const put : {&stream_token::on_device, &stream_token::bound_to}) {
            CHECK((r.unsaid.*put)(r.one) == r.second);
            CHECK((r.unsaid.*put)(r.one).has_device());
            CHECK((r.first.*put)(r.one) == r.first);
            CHECK((r.first.*put)(r.one).device_id() == 0);
            CHECK_FALSE((r.unsaid.*put)(pinned).has_device());
        }
        CHECK(r.unsaid == r.first);  // by itself it is the first device's
        CHECK(r.first != r.second);
        CHECK(r.second.without_device().on_device(gpu0) == r.first);
        CHECK(r.first.is_default_of_other(r.one));
        CHECK_FALSE(r.second.is_default_of_other(r.one));
        CHECK_FALSE(r.unsaid.is_default_of_other(r.one));
        CHECK_FALSE(r.first.is_default_of_other(pinned));
    }
}

TEST_CASE("R48: a handle bound to a device contains the device, and compares equal to the handle") {
    using ferry::device;
    constexpr device gpu1{device_type::cuda, 1}, gpu2{device_type::cuda, 2}, managed{device_type::cuda_managed, 1};
    auto const handle = stream_token::from_cuda_handle(0x1000), bound = handle.bound_to(gpu1);
    CHECK_FALSE(handle.has_device());
    CHECK(bound.has_device());
    CHECK(bound.device_id() == 1);
    CHECK(bound == handle);
    CHECK(bound.bound_to(gpu2).device_id() == 1);
    CHECK_FALSE(bound.without_device().has_device());
    CHECK_FALSE(handle.bound_to(managed).has_device());
    CHECK_FALSE(handle.on_device(gpu1).has_device());
    CHECK_FALSE(bound.is_default_of_other(gpu2));
    CHECK_FALSE(stream_token{}.bound_to(gpu1).has_device());
    CHECK(stream_token::no_sync().bound_to(gpu1) == stream_token::no_sync());
}
