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
            std::string_view key;
            if (!take_text(key) || !skip(':')) return false;
            if (key == "shape") has_shape = true;
            bool const is_list = key == "shape" || (key == "permutation" && is_next('['));
            if (!(is_list ? take_list(key == "shape" ? shape : permutation) : skip_value())) return false;
        } while (skip(','));
        return skip('}') && !is_next('\0') && rest_.empty() && has_shape;
    }

   private:
    /// Skips blanks.
    [[nodiscard]] bool is_next(char c) noexcept {
        auto const begin = rest_.find_first_not_of(" \t\r\n");
        rest_.remove_prefix(begin < rest_.size() ? begin : rest_.size());
        return !rest_.empty() && rest_.front() == c;
    }
    [[nodiscard]] bool skip(char c) noexcept {
        if (!is_next(c)) return false;
        rest_.remove_prefix(1);
        return true;
    }
    [[nodiscard]] bool take_text(std::string_view& out) noexcept {
        if (!skip('"')) return false;
        std::size_t end = 0;
        while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
        if (end >= rest_.size()) return false;
        out = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        return true;
    }
    [[nodiscard]] bool take_list(std::vector<std::int64_t>& out) {
        out.clear();
        if (!skip('[')) return false;
        if (skip(']')) return true;
        do {
            static_cast<void>(is_next('0'));  // blanks
            format_reader number{rest_};
            std::int32_t value = 0;
            if (!number.take_number(value)) return false;
            out.push_back(value);
            rest_ = number.take_rest();
        } while (skip(','));
        return skip(']');
    }
    [[nodiscard]] bool skip_value() noexcept {
        for (int depth = 0; !rest_.empty();) {
            std::string_view text;
            bool const is_end = is_next(']') || is_next('}');
            if (depth == 0 && (is_end || is_next(','))) return true;
            if (is_next('"') ? !take_text(text) : rest_.empty()) return false;
            if (text.data() != nullptr) continue;
            depth += is_end ? -1 : is_next('[') || is_next('{') ? 1 : 0;
            rest_.remove_prefix(1);
        }
        return false;
    }

    std::string_view rest_;
};

/// The dimensions of a tensor: the extents in the order of memory, and the dimension in memory of each of the tensor.
struct tensor_dims {
    std::vector<std::int64_t> in_memory{};
    std::vector<std::size_t> order{};

    [[nodiscard]] bool is_ordered() const noexcept {
        for (std::size_t i = 0; i < order.size(); ++i)
            if (order[i] != i) return false;
        return true;
    }
    void add(std::int64_t extent) {
        order.push_back(in_memory.size());
        in_memory.push_back(extent);
    }
    /// Returns the values, given in the order of memory, in the order of the tensor.
    [[nodiscard]] std::vector<std::int64_t> ordered(std::vector<std::int64_t> const& values) const {
        std::vector<std::int64_t> out;
        for (auto const i : order) out.push_back(values[i]);
        return out;
    }
    [[nodiscard]] std::vector<std::int64_t> strides() const {
        std::vector<std::int64_t> out(in_memory.size(), 1);
        for (std::size_t i = out.size(); i-- > 1;) out[i - 1] = compact_step(out[i], in_memory[i]);
        return ordered(out);
    }
    /// Writes the metadata of arrow.fixed_shape_tensor, of a tensor whose first dimension is that of the rows.
    [[nodiscard]] bool write(metadata_builder& to, reporter r) const {
        std::string shape, permutation;
        for (std::size_t i = 1; i < order.size(); ++i) {
            char const* const comma = i == 1 ? "" : ",";
            (shape += comma) += std::to_string(in_memory[i]);
            (permutation += comma) += std::to_string(order[i] - 1);
        }
        auto const end = is_ordered() ? "]}" : "],\"permutation\":[" + permutation + "]}";
        return to.add_pair(extension_name, fixed_shape_tensor, r) &&
               to.add_pair(extension_json, "{\"shape\":[" + shape + end, r);
    }
};

/// Adds the dimensions of a fixed-size list: its size or, for arrow.fixed_shape_tensor, the shape.
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
    std::vector<char> seen(shape.size());
    for (std::size_t i = 0; is_valid && i < shape.size(); ++i) {
        out.add(shape[i]);
        if (permutation.empty()) continue;
        auto const from = static_cast<std::size_t>(permutation[i]);
        is_valid = from < shape.size() && std::exchange(seen[from], 1) == 0;
        out.order.back() = first + from;
    }
    return is_valid || report(r, errc::bad_column,
                              node_error(path, message{"the metadata of arrow.fixed_shape_tensor does not describe "}
                                                   << c.type().width << " items by a shape and a permutation"));
}

}  // namespace FERRY_NAMESPACE::detail
