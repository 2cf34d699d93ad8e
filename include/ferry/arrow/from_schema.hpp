// ferry: imports of the type of a column from an ArrowSchema without an array.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/detail/source.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/tree.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // the tree is shared
#include <source_location>
#include <string_view>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE {
namespace detail {

/// A schema that arrow_check has validated, as the source of an empty column.
class schema_source {
   public:
    explicit schema_source(ArrowSchema const& schema) noexcept : schema_{&schema} {}
    [[nodiscard]] std::string_view format() const noexcept { return schema_->format; }
    [[nodiscard]] std::string_view name() const noexcept { return text_of(schema_->name); }
    [[nodiscard]] std::string_view metadata() const noexcept { return metadata_of(*schema_); }
    [[nodiscard]] std::int64_t flags() const noexcept { return schema_->flags; }
    [[nodiscard]] std::int64_t length() const noexcept { return 0; }
    [[nodiscard]] std::int64_t null_count() const noexcept { return 0; }
    [[nodiscard]] std::int64_t offset() const noexcept { return 0; }
    [[nodiscard]] std::size_t buffer_count() const noexcept {
        return least_buffers(layout_of(*parse_format(format())));
    }
    [[nodiscard]] column_buffer buffer(std::size_t) const noexcept { return {nullptr, 0}; }
    [[nodiscard]] std::size_t child_count() const noexcept { return static_cast<std::size_t>(schema_->n_children); }
    [[nodiscard]] schema_source child(std::size_t i) const noexcept { return schema_source{*schema_->children[i]}; }
    [[nodiscard]] bool has_dictionary() const noexcept { return schema_->dictionary != nullptr; }
    [[nodiscard]] schema_source dictionary() const noexcept { return schema_source{*schema_->dictionary}; }

   private:
    ArrowSchema const* schema_;
};

}  // namespace detail

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
    if (schema == nullptr) detail::fail(errc::argument, api, message{"the ArrowSchema is null"}, where);
    detail::column_path const path{detail::name_of(*schema)};
    auto const size = detail::arrow_check{api, where, false}.run(nullptr, *schema, path);
    auto tree = std::make_shared<detail::column_tree>();
    static_cast<void>(detail::fill(*tree, detail::schema_source{*schema}, size, cpu, path, {api, where}));
    return detail::column_access::make(std::move(tree));
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
