// ferry: columns out of Arrow's C data interface.
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

namespace ferry::inline v0 {
namespace detail {

/// The tree of an import: the foreign array is what keeps its buffers alive.
struct imported_tree : column_tree {
    owned<ArrowArray> array;
};

/// The checked tree of a foreign array, which is not taken over yet.
[[nodiscard]] inline std::shared_ptr<imported_tree> read_arrow(ArrowArray const* array, ArrowSchema const* schema,
                                                               device on, char const* api, std::source_location where) {
    if (array == nullptr || schema == nullptr)
        fail(errc::argument, api, message{array == nullptr ? "the ArrowArray" : "the ArrowSchema"} << " is null",
             where);
    // Bytes of the lengths are read, and only where no stream may still be about to write them.
    bool const reads_lengths = on.type == device_type::cpu;
    column_path const path{name_of(*schema)};
    auto const size = arrow_check{api, where, reads_lengths}.run(array, *schema, path);
    auto tree = std::make_shared<imported_tree>();
    fill(*tree, arrow_source{*array, *schema, reads_lengths}, size, on, path, api, where);
    return tree;
}
/// Moves the struct, as the interface has it: bitwise, and the source is left released.
inline column take_arrow(std::shared_ptr<imported_tree> tree, ArrowArray* array) noexcept {
    tree->array.raw = std::exchange(*array, ArrowArray{});
    return column_access::make(std::move(tree));
}
inline void release_schema(ArrowSchema* schema) noexcept {
    owned<ArrowSchema> taken;
    taken.raw = std::exchange(*schema, ArrowSchema{});  // marked released even where the callback forgets it
}

}  // namespace detail

/// Takes over an array of host memory once its structure has been checked; nothing is copied but names, formats and
/// metadata.
///
/// On success the column owns the array and releases it with its last copy, slice, child or export, on whatever thread;
/// the schema is released; both of the caller's structs are left released (`release` is null). On failure both are as
/// they were, and still the caller's. No byte of a buffer is read, but the lengths of a view type's data buffers. Does
/// not synchronise.
///
/// The interface gives no sizes of buffers: that they are as large as type, offset and length need cannot be checked,
/// nor that text ends or that a pointer points to something. Values are checked by a full validation, when somebody
/// asks.
///
/// Source: "Structure definitions" and "Moving an array" of the Arrow C data interface.
/// \throws error  errc::bad_column: what is wrong, with the node's path;  argument: a null pointer;  std::bad_alloc
[[nodiscard]] inline column from_arrow(ArrowArray* array, ArrowSchema* schema,
                                       std::source_location where = std::source_location::current()) {
    auto tree = detail::read_arrow(array, schema, cpu, "ferry::from_arrow", where);
    auto made = detail::take_arrow(std::move(tree), array);
    detail::release_schema(schema);
    return made;
}

}  // namespace ferry::inline v0
