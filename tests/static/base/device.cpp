#include <ferry/base/device.hpp>

#include <concepts>
#include <type_traits>

using ferry::device;
using ferry::device_type;

static_assert(std::regular<device> && std::totally_ordered<device>);
static_assert(std::is_trivially_copyable_v<device> && sizeof(device) == sizeof(DLDevice));
static_assert(std::is_nothrow_move_constructible_v<device>);
static_assert(std::is_same_v<std::underlying_type_t<device_type>, std::int32_t>);
static_assert(std::is_convertible_v<device_type, device>);
static_assert(!std::is_convertible_v<int, device> && !std::is_convertible_v<DLDevice, device>);
static_assert(std::is_constructible_v<device, DLDevice>);

static_assert(ferry::cpu == device{device_type::cpu, 0});
static_assert(device{device_type::cuda, 1}.to_abi().device_id == 1);
static_assert(device{device{device_type::cuda, 1}.to_abi()} == device{device_type::cuda, 1});
static_assert(is_host_accessible(device_type::cuda_managed) && !is_host_accessible(device_type::cuda));
