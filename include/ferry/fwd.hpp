// ferry: forward declarations of public types.
#pragma once

#include <ferry/config.hpp>

#include <cstdint>

/// Exchange of tensors (DLPack 1.x) and columns (Arrow) between libraries, devices and processes.
namespace FERRY_NAMESPACE {

enum class errc : int;
class error;
template <class T>
class result;
enum class device_type : std::int32_t;
struct device;
enum class type_code : std::uint8_t;
struct data_type;
enum class flags : std::uint64_t;
struct version;
class shape_view;
class strides_view;
template <int MaxRank>
class inplace_dims;
class stream_token;

class tensor_view;
template <int MaxRank>
class inplace_view;
class managed_tensor;
class borrowed_tensor;

class bitmap_view;
struct column_type;
class column_view;
class column;

namespace detail {

/// Whether to_dlpack and share support a type through overloads instead of array_traits.
template <class T>
inline constexpr bool has_own_exports = false;
template <>
inline constexpr bool has_own_exports<managed_tensor> = true;
template <>
inline constexpr bool has_own_exports<tensor_view> = true;
template <int MaxRank>
inline constexpr bool has_own_exports<inplace_view<MaxRank>> = true;
template <>
inline constexpr bool has_own_exports<column> = true;

/// Whether a type is a typed_view with access_from::device. It does not store its device and cannot be exported.
template <class T>
inline constexpr bool is_device_view = false;

}  // namespace detail

enum class copy_policy : std::uint8_t;
struct request;

/// Customisation point for array libraries; see exchange/array_traits.hpp.
template <class Array>
struct array_traits;

}  // namespace FERRY_NAMESPACE
