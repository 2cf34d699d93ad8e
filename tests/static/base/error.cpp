#include <ferry/base/error.hpp>

#include <exception>
#include <string_view>
#include <type_traits>

using ferry::error;
using ferry::message;

static_assert(std::is_base_of_v<std::exception, error>);
static_assert(std::is_nothrow_copy_constructible_v<error> && std::is_nothrow_destructible_v<error>);
static_assert(!std::is_default_constructible_v<error>);
static_assert(std::is_trivially_copyable_v<message>);

namespace {

constexpr bool writes() {
    message text{"shape["};
    text << 2 << "] is " << std::int64_t{-1};
    return std::string_view{text.c_str()} == "shape[2] is -1";
}

}  // namespace

static_assert(writes());
static_assert(std::string_view{name(ferry::errc::context_lost)} == "context_lost");
