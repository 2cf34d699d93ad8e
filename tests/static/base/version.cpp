#include <ferry/base/version.hpp>
#include <ferry/version.hpp>

#include <concepts>
#include <type_traits>

using ferry::version;

static_assert(std::regular<version> && std::totally_ordered<version>);
static_assert(std::is_trivially_copyable_v<version> && sizeof(version) == 8 && std::is_aggregate_v<version>);
static_assert(version::current > version{1, 0} && version::legacy.is_legacy());
static_assert(FERRY_VERSION_MAJOR >= 0 && FERRY_VERSION_MINOR >= 0 && FERRY_VERSION_PATCH >= 0);
