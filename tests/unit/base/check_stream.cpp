// The check of the streams that callers pass for memory of a device.
#include <ferry/base/detail/check_stream.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <source_location>

using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::stream_token;

namespace {

constexpr device gpu{device_type::cuda, 2}, pinned{device_type::cuda_host};

bool is_valid(stream_token on, device d, device other) {
    return ferry::detail::check_stream(on, d, other, {"ferry::f", std::source_location::current()});
}

}  // namespace

TEST_CASE("R43, R44: a null stream and a stream of another device are refused, with the device in the message") {
    auto const refuses = [](stream_token on, device d, device other, char const* text) {
        support::fails(errc::stream, [&] { static_cast<void>(is_valid(on, d, other)); }, {text});
    };
    refuses(stream_token::from_cuda_handle(0), gpu, gpu, "per-thread default stream (R44)");
    refuses(stream_token::from_cuda_handle(0), ferry::cpu, ferry::cpu, "per-thread default stream (R44)");
    refuses(stream_token::rocm_default(), gpu, gpu, "belongs to rocm, and the data is on cuda:2");
    refuses(stream_token::rocm_default(), ferry::cpu, gpu, "pass a stream of cuda:2");
    refuses(stream_token::cuda_legacy_default(1), gpu, ferry::cpu, "belongs to cuda:1, and the data is on cuda:2");
}

TEST_CASE("R43, R46: a stream of the device of either side is valid, and any stream is for memory of type cpu alone") {
    CHECK(is_valid({}, gpu, gpu));
    CHECK(is_valid(ferry::already_ready, gpu, gpu));
    CHECK(is_valid(stream_token::cuda_legacy_default(2), gpu, ferry::cpu));
    CHECK(is_valid(stream_token::cuda_legacy_default(2), ferry::cpu, gpu));
    CHECK(is_valid(stream_token::cuda_legacy_default(), pinned, ferry::cpu));
    CHECK(is_valid(stream_token::rocm_default(), ferry::cpu, ferry::cpu));
}
