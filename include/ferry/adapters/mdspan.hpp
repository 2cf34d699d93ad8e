// ferry: mdspans as arrays: std::mdspan here, others in mdspan_*.hpp. The way back is ferry::to_mdspan: an mdspan owns
// nothing, so a managed_tensor must be kept beside it.
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

namespace ferry::inline v0 {
namespace detail {

/// How an mdspan lies whose accessor is the default one: its mapping says it. Copies are handles to the elements.
template <class Mdspan>
struct mdspan_layout {
    static constexpr int max_rank = Mdspan::rank() > 0 ? static_cast<int>(Mdspan::rank()) : 1;
    static constexpr bool is_flat = false, is_handle = true, owns = false;

    /// \throws error  errc::overflow when an extent or stride does not fit 63 bits
    static int describe(Mdspan const& m, std::int64_t* extents, std::int64_t* strides) {
        for (typename Mdspan::rank_type r = 0; r < Mdspan::rank(); ++r) {
            auto const extent = m.extent(r), stride = m.stride(r);
            if (!std::in_range<std::int64_t>(extent) || !std::in_range<std::int64_t>(stride))
                fail(errc::overflow, "ferry::shaped",
                     message{"an extent or stride of the mdspan has more than 63 bits (R32)"});
            extents[r] = static_cast<std::int64_t>(extent);
            strides[r] = static_cast<std::int64_t>(stride);
        }
        return static_cast<int>(Mdspan::rank());
    }
    static data_type dtype(Mdspan const&) noexcept { return dtype_of<typename Mdspan::value_type>; }
    static typename Mdspan::element_type* data(Mdspan const& m) noexcept { return m.data_handle(); }
};

/// Its elements lie at strides, whatever the layout is called. Not required: that they are dense, or apart.
template <class Mdspan>
concept strided_mdspan = element<typename Mdspan::value_type> && Mdspan::mapping_type::is_always_strided();

}  // namespace detail

#if FERRY_HAS_STD_MDSPAN
/// `ferry::shaped{m}`: borrows the elements, which must outlive every tensor made from it, as with std::span. An mdspan
/// of const is read-only (R11). Any layout with strides; other accessors than the default one may mean other elements
/// than the pointer's.
template <class T, class Extents, class Layout>
    requires detail::strided_mdspan<std::mdspan<T, Extents, Layout>>
struct shaped_traits<std::mdspan<T, Extents, Layout>> : detail::mdspan_layout<std::mdspan<T, Extents, Layout>> {};
#endif

}  // namespace ferry::inline v0
