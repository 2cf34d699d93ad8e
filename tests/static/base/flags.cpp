#include <ferry/base/flags.hpp>

#include <concepts>
#include <type_traits>

using ferry::flags;

static_assert(std::regular<flags> && sizeof(flags) == 8);
static_assert(!std::is_convertible_v<flags, std::uint64_t> && !std::is_convertible_v<std::uint64_t, flags>);
static_assert(has(flags::read_only | flags::is_copied, flags::is_copied));
static_assert(known(~flags::none) == flags{7});
