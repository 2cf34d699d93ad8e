// ferry: the path of a node in the tree of a column, for messages.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/type.hpp>

#include <cstddef>
#include <string_view>

namespace FERRY_NAMESPACE::detail {

/// Appends a text that may contain any characters; writes `?` for those that cannot be printed.
template <class Text>
constexpr void put_printable(Text& out, std::string_view text) noexcept {
    for (char const c : text) out << (static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
}

/// The path of a node, such as `orders.items[].price`. `.name` is a child of a struct or union, `[]` the items of a
/// list, `{}` the entries of a map, `<run_ends>` and `<values>` the children of a run-end encoded column. Each object
/// refers to the path of the parent.
class column_path {
   public:
    /// Constructs the path of a root.
    constexpr explicit column_path(std::string_view name) noexcept
        : name_{name.empty() ? std::string_view{"column"} : name} {}
    /// Constructs the path of child `i`, with the name `name`, of a column of type `parent`.
    constexpr column_path(column_path const& above, type_id parent, int i, std::string_view name) noexcept
        : above_{&above}, before_{mark_of(parent, i)}, name_{before_ == "." ? name : std::string_view{}} {}
    [[nodiscard]] constexpr column_path dictionary() const noexcept { return {*this, "<dictionary>"}; }

    friend constexpr inplace_text& operator<<(inplace_text& out, column_path const& path) noexcept {
        path.write(out, path.length());
        return out;
    }
    friend constexpr inplace_text& operator<<(inplace_text&& out, column_path const& path) noexcept {
        return out << path;
    }

   private:
    constexpr column_path(column_path const& above, std::string_view mark) noexcept : above_{&above}, before_{mark} {}
    [[nodiscard]] static constexpr std::string_view mark_of(type_id parent, int i) noexcept {
        switch (parent) {
            case type_id::structure:
            case type_id::dense_union:
            case type_id::sparse_union: return ".";
            case type_id::map: return "{}";
            case type_id::run_end_encoded: return i == 0 ? "<run_ends>" : "<values>";
            default: return "[]";
        }
    }
    [[nodiscard]] constexpr std::size_t own_length() const noexcept {
        return before_.size() + name_.substr(0, max_name).size();
    }
    [[nodiscard]] constexpr std::size_t length() const noexcept {
        return own_length() + (above_ != nullptr ? above_->length() : 0);
    }
    /// Writes the path up to this node, and returns its length. Omits the middle of a path that is too long for a
    /// message.
    constexpr std::size_t write(inplace_text& out, std::size_t whole) const noexcept {
        std::size_t const begin = above_ != nullptr ? above_->write(out, whole) : 0, end = begin + own_length();
        if (whole <= 2 * max_end || end <= max_end || whole - begin <= max_end) {
            put_printable(out, before_);
            put_printable(out, name_.substr(0, max_name));
        } else if (begin <= max_end) {
            out << "…";
        }
        return end;
    }
    static constexpr std::size_t max_name = 64, max_end = 100;

    column_path const* above_ = nullptr;
    std::string_view before_{}, name_{};
};

/// Returns the text of an error of a node: the path, the cause and the fix.
[[nodiscard]] FERRY_COLD constexpr inplace_text node_error(
    column_path const& path, message const& cause,
    message const& fix = ": correct the column in its producer") noexcept {
    return inplace_text{} << path << (message{": "} << cause << fix);
}

}  // namespace FERRY_NAMESPACE::detail
