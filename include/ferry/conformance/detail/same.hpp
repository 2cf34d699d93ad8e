// ferry: comparisons that the checks share, with their evidence.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/conformance/detail/numbers.hpp>
#include <ferry/conformance/detail/samples.hpp>
#include <ferry/conformance/finding.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>

namespace ferry::inline v0::conformance::detail {

/// Whether host code may look at the elements, and knows how to read them.
[[nodiscard]] inline bool can_read(tensor_view const& v) {
    return is_host_accessible(v.device()) && v.byte_offset() == 0 && is_readable(v.dtype()) &&
           (v.data() != nullptr || v.is_empty());
}

/// The elements count from 1; what they do instead is the evidence.
[[nodiscard]] inline outcome count_up(tensor_view const& v, message what) {
    if (!can_read(v)) return not_applicable(what << ": the host cannot read its elements");
    auto const wrong = first_wrong(v);
    if (wrong >= 0) return broken(what << ": element " << wrong << " in row-major order is not " << wrong + 1);
    return kept(what);
}

/// Two views of the same elements: address, type, shape, strides that count, device.
[[nodiscard]] inline outcome same_tensor(tensor_view const& got, tensor_view const& wanted, message what) {
    if (got.dtype() != wanted.dtype())
        return broken(what << ": its type is " << got.dtype() << ", not " << wanted.dtype());
    if (!(got.shape() == wanted.shape())) {
        what << ": its shape is ";
        detail::operator<<(what, got.shape());
        what << ", not ";
        return broken(detail::operator<<(what, wanted.shape()));
    }
    if (!is_same_place(got.device(), wanted.device()))
        return broken(what << ": it is on " << ferry::name(got.device().type) << ":" << got.device().id << ", not on "
                           << ferry::name(wanted.device().type) << ":" << wanted.device().id);
    if (wanted.is_empty()) return kept(what);
    if (got.data() != wanted.data()) return broken(what << ": its first element is in other memory");
    for (int i = 0; i < got.rank(); ++i)
        if (got.extent(i) != 1 && got.stride(i) != wanted.stride(i))
            return broken(what << ": the stride of dimension " << i << " is " << got.stride(i) << ", not "
                               << wanted.stride(i));
    return kept(what);
}

/// Two outcomes of one look: the second counts where the first is no break.
[[nodiscard]] inline outcome both(outcome const& first, outcome const& second) {
    if (first.found == verdict::broken || second.found == verdict::not_applicable) return first;
    return second;
}

}  // namespace ferry::inline v0::conformance::detail
