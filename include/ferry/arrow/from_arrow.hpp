// ferry: imports of columns by Arrow's C data interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/detail/owned.hpp>
#include <ferry/arrow/detail/source.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/tree.hpp>

#include <memory>  // the tree is shared
#include <source_location>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE {
namespace detail {

/// The tree of an import, whose buffers the foreign array keeps alive.
struct imported_tree : column_tree {
    owned<ArrowArray> array;
};

/// Returns the validated tree of a foreign array, without moving the array.
[[nodiscard]] inline std::shared_ptr<imported_tree> read_arrow(ArrowArray const* array, ArrowSchema const* schema,
                                                               device on, char const* api, std::source_location where) {
    if (array == nullptr || schema == nullptr)
        fail(errc::argument, api,
             message{array == nullptr ? "the ArrowArray" : "the ArrowSchema"} << " is null: pass a struct", where);
    // Only the lengths of data buffers are read, in memory that no stream can still write.
    bool const reads_lengths = on.type == device_type::cpu;
    column_path const path{name_of(*schema)};
    auto const size = arrow_check{api, where, reads_lengths}.run(array, *schema, path);
    auto tree = std::make_shared<imported_tree>();
    static_cast<void>(fill(*tree, arrow_source{*array, *schema, reads_lengths}, size, on, path, {api, where}));
    return tree;
}
/// Moves the array into the tree: a bitwise copy, after which `release` of the source is null.
inline column take_arrow(std::shared_ptr<imported_tree> tree, ArrowArray* array) noexcept {
    tree->array.raw = std::exchange(*array, ArrowArray{});
    return column_access::make(std::move(tree));
}
inline void release_schema(ArrowSchema* schema) noexcept {
    owned<ArrowSchema> taken;
    taken.raw = std::exchange(*schema, ArrowSchema{});  // null even if the callback does not set it
}

}  // namespace detail

/// Imports an array in host memory without a copy of the data; names, formats and metadata are copied.
///
/// On success the column owns the array and releases it with the last copy, slice, child or export, on any thread. The
/// schema is released, and `release` of both structs is null. Validates the structure; buffers are not read, except the
/// lengths of the data buffers of view types. Does not synchronise.
///
/// The interface contains no buffer sizes, so the size of a buffer, the terminator of a text and the validity of a
/// pointer cannot be checked. To check the values call validate with validation::full.
///
/// Source: "Structure definitions" and "Moving an array" of the Arrow C data interface.
///
/// \param array   array; moved from on success, unchanged on failure
/// \param schema  its type; released on success, unchanged on failure
/// \param where   source location of the caller
/// \throws error           errc::bad_column: an invalid array or schema; the message has the path of the node;
///                         argument: a null pointer
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline column from_arrow(ArrowArray* array, ArrowSchema* schema,
                                       std::source_location where = std::source_location::current()) {
    auto tree = detail::read_arrow(array, schema, cpu, "ferry::from_arrow", where);
    auto made = detail::take_arrow(std::move(tree), array);
    detail::release_schema(schema);
    return made;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
