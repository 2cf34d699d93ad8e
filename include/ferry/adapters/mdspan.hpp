// ferry: adapter for std::mdspan; mdspan_*.hpp adapt other implementations. ferry::to_mdspan converts a typed view to
// an mdspan. Imports as mdspan are not supported, because an mdspan does not own its elements.
#pragma once

#include <ferry/adapters/shaped.hpp>
#include <ferry/base/error.hpp>
#include <ferry/config.hpp>
#include <ferry/tensor/mdspan.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>

#if FERRY_HAS_STD_MDSPAN
#include <mdspan>
#endif

namespace FERRY_NAMESPACE {
namespace detail {

/// Layout of an mdspan with the default accessor, from its mapping. Copies of an mdspan share the elements.
template <class Mdspan>
struct mdspan_layout {
    static constexpr int max_rank = Mdspan::rank() > 0 ? static_cast<int>(Mdspan::rank()) : 1;
    static constexpr bool is_flat = false, is_handle = true, owns = false;

    /// \throws error  errc::overflow when an extent or stride does not fit in std::int64_t
    static int describe(Mdspan const& m, std::int64_t* extents, std::int64_t* strides) {
        for (typename Mdspan::rank_type r = 0; r < Mdspan::rank(); ++r) {
            auto const extent = m.extent(r), stride = m.stride(r);
            if (!std::in_range<std::int64_t>(extent) || !std::in_range<std::int64_t>(stride))
                fail(errc::overflow, "ferry::shaped",
                     message{"an extent or stride of the mdspan exceeds the maximum of std::int64_t (R32): export a "
                             "submdspan"});
            extents[r] = static_cast<std::int64_t>(extent);
            strides[r] = static_cast<std::int64_t>(stride);
        }
        return static_cast<int>(Mdspan::rank());
    }
    static data_type dtype(Mdspan const&) noexcept { return dtype_of<typename Mdspan::value_type>; }
    static typename Mdspan::element_type* data(Mdspan const& m) noexcept { return m.data_handle(); }
};

/// An mdspan whose layout always has strides. The elements need not be dense or distinct.
template <class Mdspan>
concept strided_mdspan = element<typename Mdspan::value_type> && Mdspan::mapping_type::is_always_strided();

}  // namespace detail

#if FERRY_HAS_STD_MDSPAN
/// std::mdspan: `ferry::shaped{m}` references the elements, which must outlive every tensor that shares them. An
/// rvalue is never shared; it is copied if the request permits a copy, and refused otherwise (D13). An mdspan of
/// const elements is exported read-only (R11). Supports any strided layout, but only the default accessor, because
/// other accessors may return elements that are not in memory.
template <class T, class Extents, class Layout>
    requires detail::strided_mdspan<std::mdspan<T, Extents, Layout>>
struct shaped_traits<std::mdspan<T, Extents, Layout>> : detail::mdspan_layout<std::mdspan<T, Extents, Layout>> {};
#endif

}  // namespace FERRY_NAMESPACE
