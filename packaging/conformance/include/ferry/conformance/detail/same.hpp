// ferry: comparisons shared by the checks; each returns an outcome with its evidence.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/conformance/detail/numbers.hpp>
#include <ferry/conformance/detail/samples.hpp>
#include <ferry/conformance/finding.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE::conformance::detail {

/// Whether the elements are in host memory and of a type that the kit can read.
[[nodiscard]] inline bool can_read(tensor_view const& v) {
    return is_host_accessible(v.device()) && v.byte_offset() == 0 && is_readable(v.dtype()) &&
           (v.data() != nullptr || v.is_empty());
}

/// Returns the outcome of a check of elements that the kit cannot read.
[[nodiscard]] inline outcome unread(tensor_view const& v, message what) {
    if (!is_readable(v.dtype())) return not_examined(what << ": the kit cannot read elements of type " << v.dtype());
    return not_examined(what << ": the host cannot read its elements, which are in memory of "
                             << ferry::name(v.device().type) << ":" << v.device().id);
}

/// Checks that the elements are 1, 2, 3, ….
[[nodiscard]] inline outcome check_elements(tensor_view const& v, message what) {
    if (!can_read(v)) return unread(v, what);
    auto const wrong = first_mismatch(v);
    if (wrong >= 0) return broken(what << ": element " << wrong << " (row-major) is not " << wrong + 1);
    return kept(what);
}

/// Checks that two views have the same type, shape, device, address, and strides of dimensions whose extent is not 1.
[[nodiscard]] inline outcome same_tensor(tensor_view const& got, tensor_view const& wanted, message what) {
    if (got.dtype() != wanted.dtype())
        return broken(what << ": its type is " << got.dtype() << ", expected " << wanted.dtype());
    if (!(got.shape() == wanted.shape())) {
        what << ": its shape is ";
        detail::operator<<(what, got.shape());
        what << ", expected ";
        return broken(detail::operator<<(what, wanted.shape()));
    }
    if (!is_same_device(got.device(), wanted.device()))
        return broken(what << ": it is on " << ferry::name(got.device().type) << ":" << got.device().id << ", expected "
                           << ferry::name(wanted.device().type) << ":" << wanted.device().id);
    if (wanted.is_empty()) return kept(what);
    if (got.data() != wanted.data()) return broken(what << ": its first element has another address");
    for (int i = 0; i < got.rank(); ++i)
        if (got.extent(i) != 1 && got.stride(i) != wanted.stride(i))
            return broken(what << ": the stride of dimension " << i << " is " << got.stride(i) << ", expected "
                               << wanted.stride(i));
    return kept(what);
}

/// Combines two outcomes of one check. Returns the first if it is broken or the second is neither kept nor broken;
/// otherwise returns the second.
[[nodiscard]] inline outcome combine(outcome const& first, outcome const& second) {
    if (first.found == verdict::broken || second.found == verdict::not_applicable ||
        second.found == verdict::not_examined)
        return first;
    return second;
}

}  // namespace FERRY_NAMESPACE::conformance::detail
