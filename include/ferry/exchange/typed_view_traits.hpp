// ferry: exports of typed views.
#pragma once

#include <ferry/fwd.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/view.hpp>

namespace FERRY_NAMESPACE {

/// Exports typed views by `borrow` or as copies, because their elements belong to another object. A view does not store
/// its device, and is exported as host memory, on which no work may be pending.
template <element T, int Rank, layout Layout>
struct array_traits<typed_view<T, Rank, access_from::host, Layout>> {
    using array = typed_view<T, Rank, access_from::host, Layout>;
    static constexpr bool owns = false;
    /// Returns a view, which is read-only if T is const (R11).
    ///
    /// \param v  typed view, whose extents and strides the result references
    /// \return   view
    [[nodiscard]] static constexpr tensor_view view(array const& v) noexcept { return detail::untyped(v); }
};

template <element T, int Rank, layout Layout>
inline constexpr bool detail::is_device_view<typed_view<T, Rank, access_from::device, Layout>> = true;

}  // namespace FERRY_NAMESPACE
