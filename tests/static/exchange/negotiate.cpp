// negotiate() at compile time; unit/exchange/negotiate.cpp tests all combinations.
#include <ferry/exchange/negotiate.hpp>

namespace {

using namespace ferry;

constexpr device gpu{device_type::cuda}, gpu1{device_type::cuda, 1}, pinned{device_type::cuda_host},
    managed{device_type::cuda_managed};
constexpr stream_token legacy_stream = stream_token::cuda_legacy_default(),
                       stream_a = stream_token::from_cuda_handle(0xA0), stream_b = stream_token::from_cuda_handle(0xB0);
constexpr tensor_properties on_host{}, on_gpu{.device = gpu, .ready_on = stream_a},
    on_managed{.device = managed, .ready_on = stream_a};

// R53: share, copy, refuse.
static_assert(negotiate(on_host, {}).action == action::share);
static_assert(negotiate(on_host, {.copy = copy_policy::always}).bits == flags::is_copied);
static_assert(negotiate(on_gpu, {.device = cpu}).action == action::copy);
static_assert(negotiate(on_gpu, {.device = gpu1}).action == action::copy);
static_assert(negotiate(on_gpu, {.device = cpu, .copy = copy_policy::never}).reason == errc::copy_needed);
static_assert(negotiate(on_managed, {.device = cpu, .copy = copy_policy::never}).action == action::share);  // R39
static_assert(negotiate(on_managed, {.device = gpu}).action == action::share);

// R43, R44: the wait.
static_assert(negotiate(on_gpu, {.stream = stream_a}).wait == wait::none);
static_assert(negotiate(on_gpu, {.stream = stream_b}).wait == wait::order);
static_assert(negotiate(on_gpu, {}).on == legacy_stream);
static_assert(negotiate(on_gpu, {.stream = stream_token::no_sync()}).wait == wait::none);
static_assert(negotiate({.device = gpu}, {.device = cpu}).reason == errc::stream);

// R46, R48, R49: the host.
static_assert(negotiate(on_host, {.stream = legacy_stream}).reason == errc::stream);
static_assert(negotiate(on_gpu, {.device = cpu, .stream = stream_b}).reason == errc::stream);
static_assert(negotiate(on_gpu, {.device = cpu, .stream = stream_token::no_sync()}).wait == wait::host);
static_assert(negotiate(on_managed, {}).wait == wait::host);
static_assert(negotiate(on_gpu, {.device = pinned, .stream = stream_b}).wait == wait::order);

// R11, R12, R15: flags, and the legacy struct without them.
static_assert(negotiate({.bits = flags::read_only}, {}).bits == flags::read_only);
static_assert(negotiate({.bits = flags::read_only}, {.max_version = version::legacy}).action == action::copy);
static_assert(negotiate({.bits = flags::is_copied}, {}).bits == flags::none);

// R4, R57: versions.
static_assert(negotiate(on_host, {.max_version = {1, 0}}).stamp == version{1, 0});
static_assert(negotiate(on_host, {.max_version = {2, 0}}).stamp == version::current);
static_assert(negotiate(on_host, {.max_version = version::legacy}).stamp == version::legacy);
static_assert(negotiate({.type = {type_code::float8_e5m2, 8}}, {.max_version = {1, 0}}).stamp == version{1, 1});

}  // namespace
