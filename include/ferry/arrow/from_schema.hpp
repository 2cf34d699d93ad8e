// ferry: imports of the type of a column from an ArrowSchema without an array.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/detail/source.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/tree.hpp>

#include <memory>  // the tree is shared
#include <source_location>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE {
/// Returns an empty column with the type, names, flags and metadata of a schema, which are copied.
///
/// \param schema  schema; neither changed nor released
/// \param where   source location of the caller
/// \throws error           errc::bad_column: an invalid schema; the message has the path of the node;  argument: a null
///                         pointer
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline column from_arrow_schema(ArrowSchema const* schema,
                                              std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_arrow_schema";
    if (schema == nullptr) detail::fail(errc::argument, api, message{"the ArrowSchema is null: pass a struct"}, where);
    detail::column_path const path{detail::name_of(*schema)};
    auto const size = detail::arrow_check{api, where, false}.run(nullptr, *schema, path);
    auto tree = std::make_shared<detail::column_tree>();
    static_cast<void>(detail::fill(*tree, detail::schema_source{*schema}, size, cpu, path, {api, where}));
    return detail::column_access::make(std::move(tree));
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
