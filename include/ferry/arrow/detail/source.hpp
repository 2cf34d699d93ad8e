// ferry: reads a pair of Arrow's structs for the tree of a column, after checks of the structs.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/tree.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/metadata.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string_view>

namespace FERRY_NAMESPACE::detail {

[[nodiscard]] inline std::string_view text_of(char const* text) noexcept {
    return text != nullptr ? std::string_view{text} : std::string_view{};
}
/// Returns the name of a schema that has not been checked, for messages. Of a released schema, only `release` may be
/// read.
[[nodiscard]] inline std::string_view name_of(ArrowSchema const& schema) noexcept {
    return schema.release != nullptr ? text_of(schema.name) : std::string_view{};
}
[[nodiscard]] inline std::string_view metadata_of(ArrowSchema const& schema) noexcept {
    std::size_t size = 0;
    if (schema.metadata == nullptr || !measure_metadata(schema.metadata, nullptr, size)) return {};
    return size == 4 ? std::string_view{} : std::string_view{schema.metadata, size};
}

/// The maximum number of buffers of a tree. The number in an ArrowArray cannot be checked otherwise.
inline constexpr std::size_t max_column_buffers = std::size_t{1} << 24;

/// Returns the minimum number of buffers of a type. View types have an additional last buffer, of lengths, after any
/// number of data buffers.
[[nodiscard]] constexpr std::size_t least_buffers(column_layout const& layout) noexcept {
    return static_cast<std::size_t>(layout.buffer_count + layout.is_variadic);
}

/// Returns the length of data buffer `i` of a view type, from the last buffer of the array, which must be in host
/// memory.
[[nodiscard]] inline std::int64_t variadic_length(ArrowArray const& array, std::size_t i) noexcept {
    std::int64_t length = 0;
    std::memcpy(&length, static_cast<char const*>(array.buffers[array.n_buffers - 1]) + 8 * i, 8);
    return length;
}

/// Returns the number of validity buffers to skip. Old producers write such a buffer first for the types null and
/// union, which have none.
[[nodiscard]] inline std::int64_t extra_validity(std::string_view format, std::int64_t buffers) noexcept {
    if (format == "n") return buffers;
    return format.starts_with("+u") ? buffers - (format[2] == 'd' ? 2 : 1) : 0;
}

/// Reads a schema that has passed arrow_check for the tree of an empty column.
class schema_source {
   public:
    explicit schema_source(ArrowSchema const& schema) noexcept : schema_{&schema} {}
    [[nodiscard]] std::string_view format() const noexcept { return schema_->format; }
    [[nodiscard]] std::string_view name() const noexcept { return text_of(schema_->name); }
    [[nodiscard]] std::string_view metadata() const noexcept { return metadata_of(*schema_); }
    [[nodiscard]] std::int64_t flags() const noexcept { return schema_->flags; }
    [[nodiscard]] std::int64_t length() const noexcept { return 0; }
    [[nodiscard]] std::int64_t known_null_count() const noexcept { return 0; }
    [[nodiscard]] std::int64_t offset() const noexcept { return 0; }
    [[nodiscard]] std::size_t buffer_count() const noexcept {
        return least_buffers(layout_of(*parse_format(format())));
    }
    [[nodiscard]] column_buffer buffer(std::size_t) const noexcept { return {nullptr, 0}; }
    [[nodiscard]] std::size_t child_count() const noexcept { return static_cast<std::size_t>(schema_->n_children); }
    [[nodiscard]] schema_source child(std::size_t i) const noexcept { return schema_source{*schema_->children[i]}; }
    [[nodiscard]] bool has_dictionary() const noexcept { return schema_->dictionary != nullptr; }
    [[nodiscard]] schema_source dictionary() const noexcept { return schema_source{*schema_->dictionary}; }

   protected:
    ArrowSchema const* schema_;
};

/// Reads an array with its schema, which have both passed arrow_check.
class arrow_source : public schema_source {
   public:
    arrow_source(ArrowArray const& array, ArrowSchema const& schema, bool reads_lengths) noexcept
        : schema_source{schema},
          array_{&array},
          extra_{extra_validity(schema.format, array.n_buffers)},
          reads_lengths_{reads_lengths} {}
    [[nodiscard]] std::int64_t length() const noexcept { return array_->length; }
    [[nodiscard]] std::int64_t known_null_count() const noexcept { return array_->null_count; }
    [[nodiscard]] std::int64_t offset() const noexcept { return array_->offset; }
    [[nodiscard]] std::size_t buffer_count() const noexcept {
        return static_cast<std::size_t>(array_->n_buffers - extra_);
    }
    /// Returns a buffer. The C data interface contains no sizes except those of the data buffers of view types.
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept {
        column_buffer out{array_->buffers[i + static_cast<std::size_t>(extra_)], -1};
        if (schema_->format[0] != 'v' || i < 2) return out;
        auto const last = buffer_count() - 1;
        if (i == last) out.bytes = static_cast<std::int64_t>(8 * (last - 2));
        else if (reads_lengths_) out.bytes = variadic_length(*array_, i - 2);
        return out;
    }
    [[nodiscard]] arrow_source child(std::size_t i) const noexcept {
        return {*array_->children[i], *schema_->children[i], reads_lengths_};
    }
    [[nodiscard]] arrow_source dictionary() const noexcept {
        return {*array_->dictionary, *schema_->dictionary, reads_lengths_};
    }

   private:
    ArrowArray const* array_;
    std::int64_t extra_;
    bool reads_lengths_;
};

/// Checks the structs before their pointers are followed, and measures the tree. It cannot check that text is
/// terminated, that arrays of pointers are as long as their counts, or that pointers are valid.
class arrow_check {
   public:
    arrow_check(char const* api, std::source_location where, bool reads_lengths) noexcept
        : api_{api}, where_{where}, reads_lengths_{reads_lengths} {}

    /// Checks an array and its schema, or a schema alone if `array` is null. \throws error  errc::bad_column
    column_size const& run(ArrowArray const* array, ArrowSchema const& schema, column_path const& path) {
        check(array, &schema, path, 1);
        return size_;
    }

   private:
    [[noreturn]] FERRY_COLD void refuse(column_path const& path, message const& what) const {
        fail(errc::bad_column, api_, node_error(path, what), where_);
    }

    void check(ArrowArray const* array, ArrowSchema const* schema, column_path const& path, int depth) {
        if (depth > max_column_depth) refuse(path, message{"the tree is deeper than "} << max_column_depth << " nodes");
        auto const type = check_schema(*schema, path);
        auto const children = static_cast<std::size_t>(schema->n_children);
        if (array != nullptr) check_array(*array, *schema, type, path);
        else size_.buffers += least_buffers(layout_of(type));
        for (std::size_t i = 0; i < children; ++i) {
            auto const* const child = schema->children[i];
            if (child == nullptr) refuse(path, message{"child "} << std::uint64_t{i} << " of its schema is null");
            column_path const below{path, type.id, static_cast<int>(i), name_of(*child)};
            if (array != nullptr && array->children[i] == nullptr) refuse(below, message{"the array is null"});
            check(array != nullptr ? array->children[i] : nullptr, child, below, depth + 1);
        }
        if (schema->dictionary != nullptr)
            check(array != nullptr ? array->dictionary : nullptr, schema->dictionary, path.dictionary(), depth + 1);
    }
    [[nodiscard]] column_type check_schema(ArrowSchema const& s, column_path const& path) {
        if (s.release == nullptr) refuse(path, message{"the schema was released or moved from"});
        if (s.format == nullptr) refuse(path, message{"the schema's format is null"});
        if (s.n_children < 0)
            refuse(path, message{"the schema has "} << s.n_children << " children, expected at least 0");
        if (s.n_children > 0 && s.children == nullptr) refuse(path, message{"the schema's children are null"});
        if (++size_.nodes > max_column_nodes || static_cast<std::uint64_t>(s.n_children) > max_column_nodes)
            refuse(path, message{"the tree has more than "} << std::uint64_t{max_column_nodes} << " nodes");
        auto const type = *parse_or_report(s.format, path, {api_, where_});
        std::size_t metadata = 0;
        if (s.metadata != nullptr && !measure_metadata(s.metadata, nullptr, metadata))
            refuse(path, message{"a number in the schema's metadata is negative"});
        size_.text += std::strlen(s.format) + text_of(s.name).size() + metadata;
        return type;
    }
    void check_array(ArrowArray const& a, ArrowSchema const& s, column_type const& type, column_path const& path) {
        if (a.release == nullptr) refuse(path, message{"the array was released or moved from"});
        if (a.n_children != s.n_children)
            refuse(path, message{"the array has "} << a.n_children << " children, expected " << s.n_children
                                                   << ", as the schema has");
        if (a.n_children > 0 && a.children == nullptr) refuse(path, message{"the array's children are null"});
        if (s.dictionary != nullptr && a.dictionary == nullptr)
            refuse(path, message{"the schema has a dictionary, and the array has none"});
        if (s.dictionary == nullptr && a.dictionary != nullptr)
            refuse(path, message{"the array has a dictionary, and the schema has none"});
        auto const layout = layout_of(type);
        auto const least = static_cast<std::int64_t>(least_buffers(layout));
        bool const is_old = !layout.has_validity() && type.id != type_id::run_end_encoded && a.n_buffers == least + 1;
        if (layout.is_variadic ? a.n_buffers < least : a.n_buffers != least && !is_old)
            refuse(path, message{"the array has "} << a.n_buffers << " buffers, expected "
                                                   << (layout.is_variadic ? "at least " : "") << least << " for `"
                                                   << s.format << "`");
        if (a.n_buffers > 0 && a.buffers == nullptr) refuse(path, message{"the array's buffers are null"});
        if (is_old && type.id != type_id::null && a.buffers[0] != nullptr && a.null_count != 0)
            refuse(path, message{"it has a validity buffer, and columns of type `"} << s.format
                                                                                    << "` have no nulls of their own");
        if ((size_.buffers += static_cast<std::size_t>(a.n_buffers)) > max_column_buffers)
            refuse(path, message{"the tree has more than "} << std::uint64_t{max_column_buffers} << " buffers");
        if (layout.is_variadic && reads_lengths_) check_variadic(a, path);
    }
    void check_variadic(ArrowArray const& a, column_path const& path) const {
        auto const count = static_cast<std::size_t>(a.n_buffers - 3);
        if (count > 0 && a.buffers[a.n_buffers - 1] == nullptr)
            refuse(path, message{"the lengths of its "} << std::uint64_t{count} << " data buffers are null");
        for (std::size_t i = 0; i < count; ++i)
            if (auto const length = variadic_length(a, i); length < 0)
                refuse(path, message{"data buffer "} << std::uint64_t{i} << " has " << length
                                                     << " bytes, expected at least 0");
    }

    char const* api_;
    std::source_location where_;
    bool reads_lengths_;
    column_size size_{};
};

}  // namespace FERRY_NAMESPACE::detail
