// ferry: the engine of arrow/from_arrow.hpp.
#pragma once

#include <ferry/arrow/from_arrow.hpp>

#include <ferry/arrow/detail/owned.hpp>
#include <ferry/arrow/detail/source.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/tree.hpp>

#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

struct imported_tree : column_tree {
    owned<ArrowArray> array;
};

FERRY_INLINE std::shared_ptr<imported_tree> read_arrow(ArrowArray const* array, ArrowSchema const* schema, device on,
                                                       char const* api, std::source_location where) {
    if (array == nullptr || schema == nullptr)
        fail(errc::argument, api,
             message{array == nullptr ? "the ArrowArray" : "the ArrowSchema"} << " is null: pass a struct", where);
    // Reads only the lengths of data buffers, and only in memory to which no stream can still write.
    bool const reads_lengths = on.type == device_type::cpu;
    column_path const path{name_of(*schema)};
    auto const size = arrow_check{api, where, reads_lengths}.run(array, *schema, path);
    auto tree = std::make_shared<imported_tree>();
    static_cast<void>(fill(*tree, arrow_source{*array, *schema, reads_lengths}, size, on, path, {api, where}));
    return tree;
}
FERRY_INLINE column take_arrow(std::shared_ptr<imported_tree> tree, ArrowArray* array) noexcept {
    tree->array.raw = std::exchange(*array, ArrowArray{});
    return column_access::make(std::move(tree));
}
FERRY_INLINE void release_schema(ArrowSchema* schema) noexcept {
    owned<ArrowSchema> taken;
    taken.raw = std::exchange(*schema, ArrowSchema{});  // null even if the callback does not set it
}

}  // namespace detail

FERRY_INLINE column from_arrow(ArrowArray* array, ArrowSchema* schema, std::source_location where) {
    auto tree = detail::read_arrow(array, schema, cpu, "ferry::from_arrow", where);
    auto made = detail::take_arrow(std::move(tree), array);
    detail::release_schema(schema);
    return made;
}

}  // namespace FERRY_NAMESPACE
