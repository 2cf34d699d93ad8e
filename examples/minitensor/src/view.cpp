#include <minitensor/ops/view.hpp>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace mt {
namespace {

/// Returns the index of a possibly negative axis.
std::size_t axis_of(std::int64_t axis, std::size_t ndim) {
    auto const n = static_cast<std::int64_t>(ndim);
    if (axis < -n || axis >= n) {
        throw std::invalid_argument{"axis " + std::to_string(axis) + " is out of range for " +
                                    std::to_string(n) + " dimensions"};
    }
    return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

}  // namespace

tensor index(tensor const& t, std::vector<subscript> const& subscripts) {
    if (subscripts.size() > t.ndim()) {
        throw std::out_of_range{"too many indices: " + std::to_string(subscripts.size()) + " for " +
                                std::to_string(t.ndim()) + " dimensions"};
    }
    std::int64_t offset = 0;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    for (std::size_t i = 0; i < t.ndim(); ++i) {
        auto const extent = t.shape()[i];
        // The strides of an empty tensor are arbitrary and not used.
        auto const stride = t.size() == 0 ? 0 : t.strides()[i];
        if (i >= subscripts.size()) {
            shape.push_back(extent);
            strides.push_back(t.strides()[i]);
        } else if (auto const* at = std::get_if<std::int64_t>(&subscripts[i])) {
            if (*at < -extent || *at >= extent) {
                throw std::out_of_range{"index " + std::to_string(*at) +
                                        " is out of bounds for dimension " + std::to_string(i) +
                                        " of extent " + std::to_string(extent)};
            }
            offset += (*at < 0 ? *at + extent : *at) * stride;
        } else {
            auto const& part = std::get<range>(subscripts[i]);
            auto const inside = [&](std::int64_t k) { return k >= 0 && k < extent; };
            std::int64_t last = part.start;
            bool const valid =
                part.length == 0 ||
                (part.length > 0 && inside(part.start) &&
                 (part.length == 1 ||
                  (!__builtin_mul_overflow(part.length - 1, part.step, &last) &&
                   !__builtin_add_overflow(last, part.start, &last) && inside(last))));
            if (!valid) {
                throw std::out_of_range{"a range exceeds dimension " + std::to_string(i) +
                                        " of extent " + std::to_string(extent)};
            }
            shape.push_back(part.length);
            strides.push_back(part.length > 1 ? stride * part.step : t.strides()[i]);
            if (part.length > 0) offset += part.start * stride;
        }
    }
    return t.restrided(offset, std::move(shape), std::move(strides), t.readonly());
}

tensor transpose(tensor const& t, std::vector<std::int64_t> axes) {
    if (axes.empty()) {
        axes.resize(t.ndim());
        std::iota(axes.rbegin(), axes.rend(), 0);
    }
    if (axes.size() != t.ndim()) {
        throw std::invalid_argument{"transpose needs each of the " + std::to_string(t.ndim()) +
                                    " axes once, got " + std::to_string(axes.size())};
    }
    std::vector<bool> seen(t.ndim());
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    for (auto const axis : axes) {
        auto const i = axis_of(axis, t.ndim());
        if (seen[i]) {
            throw std::invalid_argument{"transpose got axis " + std::to_string(i) + " twice"};
        }
        seen[i] = true;
        shape.push_back(t.shape()[i]);
        strides.push_back(t.strides()[i]);
    }
    return t.restrided(0, std::move(shape), std::move(strides), t.readonly());
}

tensor broadcast_to(tensor const& t, std::vector<std::int64_t> shape) {
    if (shape.size() < t.ndim()) {
        throw std::invalid_argument{"broadcast_to cannot remove dimensions"};
    }
    auto const added = shape.size() - t.ndim();
    std::vector<std::int64_t> strides(shape.size(), 0);
    for (std::size_t i = 0; i < t.ndim(); ++i) {
        if (shape[added + i] == t.shape()[i]) {
            strides[added + i] = t.strides()[i];
        } else if (t.shape()[i] != 1) {
            throw std::invalid_argument{"dimension " + std::to_string(i) + " of extent " +
                                        std::to_string(t.shape()[i]) + " cannot be broadcast to " +
                                        std::to_string(shape[added + i])};
        }
    }
    return t.restrided(0, std::move(shape), std::move(strides), true);
}

tensor as_readonly(tensor const& t) { return t.restrided(0, t.shape(), t.strides(), true); }

}  // namespace mt
