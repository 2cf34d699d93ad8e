#include <ferry/wire/binary.hpp>
#include <ferry/wire/descriptor.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

using namespace ferry::wire;

static_assert(std::regular<descriptor> && std::regular<node> && std::regular<memory>);
static_assert(std::is_nothrow_move_constructible_v<descriptor> && std::is_nothrow_move_constructible_v<node>);
static_assert(major_version == 2 && minor_version == 1);
static_assert(std::is_same_v<decltype(descriptor::root), std::variant<tensor, node, list>>);
static_assert(std::is_same_v<list::value_type, std::variant<tensor, node>>);
static_assert(std::string_view{name(memory_kind::cuda_pool)} == "cuda_pool" &&
              std::string_view{name(memory_kind{4})} == "unknown");

template <class T>
concept reads_from = requires(T const& bytes) { from_bytes(bytes); };
static_assert(reads_from<std::vector<std::byte>> && reads_from<std::span<std::byte>> && !reads_from<std::vector<int>>);
