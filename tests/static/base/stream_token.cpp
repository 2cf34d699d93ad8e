#include <ferry/base/stream_token.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

using ferry::device_type;
using ferry::stream_token;

static_assert(std::regular<stream_token> && std::is_trivially_copyable_v<stream_token>);
static_assert(sizeof(stream_token) == 16);
static_assert(!std::is_convertible_v<int, stream_token> && !std::is_convertible_v<std::nullptr_t, stream_token>);
static_assert(!std::is_constructible_v<stream_token, int> && !std::is_constructible_v<stream_token, void*>);
static_assert(!std::is_convertible_v<CUstream_st*, stream_token>);

namespace {

template <class T>
concept cuda_takes = requires(T t) { stream_token::cuda(t); };
template <class T>
concept rocm_takes = requires(T t) { stream_token::rocm(t); };

}  // namespace

static_assert(cuda_takes<CUstream_st*> && rocm_takes<ihipStream_t*>);
static_assert(!cuda_takes<ihipStream_t*> && !rocm_takes<CUstream_st*> && !cuda_takes<std::string*>);
static_assert(!cuda_takes<int> && !cuda_takes<std::nullptr_t> && !cuda_takes<std::uintptr_t> && !cuda_takes<bool>);
static_assert(!cuda_takes<void*> && !cuda_takes<int*>);
static_assert(!rocm_takes<int> && !rocm_takes<std::nullptr_t> && !rocm_takes<void*>);

static_assert(stream_token{}.is_none() && stream_token::no_sync().is_no_sync());
static_assert(stream_token::from_cuda_handle(1) == stream_token::cuda_legacy_default());
static_assert(fits(stream_token::cuda_legacy_default(), device_type::cuda_host));
static_assert(!fits(stream_token::cuda_legacy_default(), device_type::rocm));
