#include <ferry/column.hpp>

#include <concepts>
#include <type_traits>

using ferry::column;
using ferry::column_view;

static_assert(std::regular<ferry::column_type>);
static_assert(std::copyable<column> && std::is_nothrow_move_constructible_v<column> &&
              std::default_initializable<column>);
static_assert(std::is_trivially_copyable_v<column_view> && sizeof(column_view) == 3 * sizeof(void*));
static_assert(std::convertible_to<column&, column_view> && std::convertible_to<column const&, column_view>);

// Formats are parsed at compile time too.
static_assert(ferry::parse_format("+w:3")->width == 3);
static_assert(!ferry::parse_format("+w:"));
static_assert(ferry::item_bits(*ferry::parse_format("tin")) == 128);
