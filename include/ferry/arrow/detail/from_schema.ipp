// ferry: the engine of arrow/from_schema.hpp.
#pragma once

#include <ferry/arrow/from_schema.hpp>

#include <ferry/arrow/detail/source.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/tree.hpp>

#include <memory>  // the tree is shared
#include <utility>

namespace FERRY_NAMESPACE {

FERRY_INLINE column from_arrow_schema(ArrowSchema const* schema, std::source_location where) {
    constexpr auto api = "ferry::from_arrow_schema";
    if (schema == nullptr) detail::fail(errc::argument, api, message{"the ArrowSchema is null: pass a struct"}, where);
    detail::column_path const path{detail::name_of(*schema)};
    auto const size = detail::arrow_check{api, where, false}.run(nullptr, *schema, path);
    auto tree = std::make_shared<detail::column_tree>();
    static_cast<void>(detail::fill(*tree, detail::schema_source{*schema}, size, cpu, path, {api, where}));
    return detail::column_access::make(std::move(tree));
}

}  // namespace FERRY_NAMESPACE
