// ferry: the dimensions of fixed-size lists, and of Arrow's extension type arrow.fixed_shape_tensor.
#pragma once

#include <ferry/base/detail/checked.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/metadata.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>

#include <algorithm>  // std::sort
#include <cstddef>
#include <cstdint>
#include <string>  // the JSON of a shape
#include <string_view>
#include <utility>
#include <vector>  // the dimensions

namespace FERRY_NAMESPACE::detail {

inline constexpr std::string_view extension_name = "ARROW:extension:name", extension_json = "ARROW:extension:metadata",
                                  fixed_shape_tensor = "arrow.fixed_shape_tensor";

/// Reads the JSON object `{"shape": [2, 3], "permutation": [1, 0]}`. The values of other keys are skipped.
class fixed_shape_reader {
   public:
    explicit fixed_shape_reader(std::string_view json) noexcept : rest_{json} {}

    [[nodiscard]] bool read(std::vector<std::int64_t>& shape, std::vector<std::int64_t>& permutation) {
        bool has_shape = false;
        if (!skip('{')) return false;
        do {
            auto const key = take_text();
            if (!skip(':')) return false;
            if (key == "permutation") permutation.clear();
            if (key == "shape" || (key == "permutation" && next() != 'n')) {  // or null
                if (!take_list(key == "shape" ? shape : permutation)) return false;
                has_shape = has_shape || key == "shape";
            } else {
                skip_value();
            }
        } while (skip(','));
        return skip('}') && next() == '\0' && rest_.empty() && has_shape;
    }

   private:
    /// Skips blanks, and returns the next character; 0 at the end.
    char next() noexcept {
        auto const begin = rest_.find_first_not_of(" \t\r\n");
        rest_.remove_prefix(begin < rest_.size() ? begin : rest_.size());
        return rest_.empty() ? '\0' : rest_.front();
    }
    [[nodiscard]] bool skip(char c) noexcept {
        if (next() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }
    /// Returns the text between quotes; nothing is left if there is none.
    std::string_view take_text() noexcept {
        std::size_t end = skip('"') ? 0 : rest_.size();
        while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2u : 1u;
        auto const all = std::exchange(rest_, end < rest_.size() ? rest_.substr(end + 1) : std::string_view{});
        return all.substr(0, end);
    }
    [[nodiscard]] bool take_list(std::vector<std::int64_t>& out) {
        out.clear();
        if (!skip('[')) return false;
        if (skip(']')) return true;
        do {
            next();
            format_reader number{rest_};
            std::int64_t value = 0;
            if (!number.take_number(value)) return false;
            out.push_back(value);
            rest_ = number.take_rest();
        } while (skip(','));
        return skip(']');
    }
    /// Skips what is before the next comma or brace that is in no other value.
    void skip_value() noexcept {
        for (int depth = 0; char const c = next();) {
            if (depth == 0 && (c == ',' || c == '}')) return;
            if (c == '"') {
                take_text();
                continue;
            }
            depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
            rest_.remove_prefix(1);
        }
    }

    std::string_view rest_;
};

/// The dimensions of a tensor: the extents in memory order, and for each dimension of the tensor its index in memory
/// order.
struct tensor_dims {
    std::vector<std::int64_t> in_memory{};
    std::vector<std::size_t> order{};

    [[nodiscard]] bool is_ordered() const noexcept { return std::is_sorted(order.begin(), order.end()); }
    void add(std::int64_t extent) {
        order.push_back(in_memory.size());
        in_memory.push_back(extent);
    }
    /// Reorders values from memory order to the order of the tensor's dimensions.
    [[nodiscard]] std::vector<std::int64_t> ordered(std::vector<std::int64_t> const& values) const {
        std::vector<std::int64_t> out;
        for (auto const i : order) out.push_back(values[i]);
        return out;
    }
    [[nodiscard]] std::vector<std::int64_t> strides() const {
        std::vector<std::int64_t> out(in_memory.size());
        fill_compact_strides(in_memory, out.data());
        return ordered(out);
    }
    /// Writes the metadata of arrow.fixed_shape_tensor, for a tensor whose first dimension is that of the rows.
    [[nodiscard]] bool write(metadata_builder& to, reporter r) const {
        std::string shape, permutation;
        for (std::size_t i = 1; i < order.size(); ++i) {
            (shape += i == 1 ? "" : ",") += std::to_string(in_memory[i]);
            (permutation += i == 1 ? "" : ",") += std::to_string(order[i] - 1);
        }
        auto const end = is_ordered() ? "]}" : "],\"permutation\":[" + permutation + "]}";
        return to.add_pair(extension_name, fixed_shape_tensor, r) &&
               to.add_pair(extension_json, "{\"shape\":[" + shape + end, r);
    }
};

/// Adds the dimensions of a fixed-size list, which are its size or, for arrow.fixed_shape_tensor, the shape.
/// Source: "Fixed shape tensor" of Arrow's canonical extension types.
[[nodiscard]] inline bool add_dims(column_view c, column_path const& path, tensor_dims& out, reporter r) {
    auto const metadata = metadata_view::try_make(c.metadata());  // checked with the column
    if (!metadata || metadata->find(extension_name) != fixed_shape_tensor) return out.add(c.type().width), true;
    std::vector<std::int64_t> shape, permutation;
    bool is_valid = fixed_shape_reader{metadata->find(extension_json)}.read(shape, permutation);
    std::int64_t items = 1;
    for (auto const extent : shape) is_valid = is_valid && checked_multiply(items, extent, items);
    is_valid = is_valid && items == c.type().width && (permutation.empty() || permutation.size() == shape.size());
    auto const first = out.in_memory.size();
    auto sorted = permutation;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; is_valid && i < shape.size(); ++i) {
        out.add(shape[i]);
        if (permutation.empty()) continue;
        is_valid = sorted[i] == static_cast<std::int64_t>(i);
        out.order.back() = first + static_cast<std::size_t>(permutation[i]);
    }
    return is_valid || report(r, errc::bad_column,
                              node_error(path, message{"the metadata of arrow.fixed_shape_tensor does not describe "}
                                                   << c.type().width << " items by a shape and a permutation"));
}

}  // namespace FERRY_NAMESPACE::detail
