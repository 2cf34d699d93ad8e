// ferry: typed views as mdspan, whichever implementation of it the user has. Includes none but the standard library's.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>
#include <ferry/tensor/typed_view.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>

#if FERRY_HAS_STD_MDSPAN
#include <mdspan>
#endif

namespace ferry::inline v0 {

/// Implementations of mdspan. A family is a struct with two alias templates, `contiguous<T, Rank>` (layout_right) and
/// `strided<T, Rank>` (layout_stride), both over std::int64_t extents that are dynamic; write one for an mdspan of your
/// own. It serves access::device, too, when it has `device_contiguous` and `device_strided`, whose accessor must not
/// let the host dereference.
namespace mdspan_family {

/// The family of an implementation with the names of the standard:
/// `using mine = ferry::mdspan_family::of<my::mdspan, my::dextents, my::layout_right, my::layout_stride>;`
template <template <class...> class Mdspan, template <class, std::size_t> class Dextents, class LayoutRight,
          class LayoutStride>
struct of {
    template <class T, std::size_t Rank>
    using contiguous = Mdspan<T, Dextents<std::int64_t, Rank>, LayoutRight>;
    template <class T, std::size_t Rank>
    using strided = Mdspan<T, Dextents<std::int64_t, Rank>, LayoutStride>;
};

#if FERRY_HAS_STD_MDSPAN
/// std::mdspan.
struct standard : of<std::mdspan, std::dextents, std::layout_right, std::layout_stride> {};
#else
/// std::mdspan, which this standard library lacks.
struct standard;
#endif

}  // namespace mdspan_family

namespace detail {

/// Has mdspans for the host. Not required: anything of the mdspans themselves; their constructors are met at the call.
template <class Family>
concept host_mdspan_family = requires {
    typename Family::template contiguous<float, 2>;
    typename Family::template strided<float, 2>;
};

/// Has mdspans whose accessor keeps the host from dereferencing. Not required: mdspans for the host.
template <class Family>
concept device_mdspan_family = requires {
    typename Family::template device_contiguous<float, 2>;
    typename Family::template device_strided<float, 2>;
};

template <class Family, class T, std::size_t Rank, access Access, layout Layout>
[[nodiscard]] consteval auto mdspan_of() {
    if constexpr (Access == access::host && Layout == layout::contiguous)
        return std::type_identity<typename Family::template contiguous<T, Rank>>{};
    else if constexpr (Access == access::host) return std::type_identity<typename Family::template strided<T, Rank>>{};
    else if constexpr (Layout == layout::contiguous)
        return std::type_identity<typename Family::template device_contiguous<T, Rank>>{};
    else return std::type_identity<typename Family::template device_strided<T, Rank>>{};
}

/// The strides as layout_stride wants them: positive, and no two elements in one place. Strides that mean nothing,
/// because the extent is 1 (R27) or the tensor empty (R26), become what a compact neighbour would have.
template <class View, class Strides>
constexpr void fill_mdspan_strides(View const& v, Strides& out, std::source_location where) {
    constexpr auto api = "ferry::to_mdspan";
    bool const empty = v.size() == 0;
    std::int64_t neighbour = 1;
    for (int i = v.rank(); i-- > 0;) {
        bool const counts = v.extent(i) != 1 && !empty;
        std::int64_t const stride = counts ? v.stride(i) : neighbour > 0 ? neighbour : 1;
        if (stride <= 0)
            fail(errc::strides, api,
                 message{"strides["} << i << "] is " << stride
                                     << ", and those of an mdspan are positive (R28, R29): index the "
                                        "typed_view, or ask for a copy with copy_policy::always",
                 where);
        out[static_cast<std::size_t>(i)] = stride;
        neighbour = compact_step(stride, v.extent(i));
    }
    if (empty) return;
    for (int i = 0; i < v.rank(); ++i)
        for (int k = 0; k < v.rank(); ++k) {
            auto const inner = v.stride(k), outer = v.stride(i);
            if (i == k || v.extent(i) == 1 || v.extent(k) == 1 || inner > outer) continue;
            if (outer / inner < v.extent(k))
                fail(errc::strides, api,
                     message{"the elements overlap in dimensions "}
                         << i << " and " << k
                         << ", and those of an mdspan must not: "
                            "index the typed_view, or ask for a copy with copy_policy::always",
                     where);
        }
}

template <class Mdspan, class T, int Rank, access Access, layout Layout, std::size_t... I>
[[nodiscard]] constexpr Mdspan make_mdspan(typed_view<T, Rank, Access, Layout> const& v, std::source_location where,
                                           std::index_sequence<I...>) {
    typename Mdspan::extents_type const extents(v.extent(static_cast<int>(I))...);
    if constexpr (Layout == layout::contiguous) {
        return Mdspan(v.data(), extents);
    } else {
        using mapping = typename Mdspan::mapping_type;
        std::remove_cvref_t<decltype(std::declval<mapping const&>().strides())> strides{};
        fill_mdspan_strides(v, strides, where);
        return Mdspan(v.data(), mapping(extents, strides));
    }
}

}  // namespace detail

/// The view as an mdspan of `Family`: layout::contiguous becomes layout_right, layout::strided layout_stride. Borrows
/// the elements as the view does; allocates nothing.
///
/// \tparam Family  mdspan_family::standard, one of adapters/mdspan_*.hpp, or your own
/// \throws error  errc::strides: zero, negative or overlapping strides, which layout_stride cannot have (R28, R29)
template <class Family = mdspan_family::standard, element T, int Rank, access Access, layout Layout>
    requires(!packed_type<T> && (Access == access::host || detail::device_mdspan_family<Family>))
[[nodiscard]] constexpr auto to_mdspan(typed_view<T, Rank, Access, Layout> const& v,
                                       std::source_location where = std::source_location::current()) {
    static_assert(Rank != dynamic_rank, "an mdspan has a static rank: ask for as<T, Rank>");
    if constexpr (Rank != dynamic_rank) {
        if constexpr (Access == access::host)
            static_assert(detail::host_mdspan_family<Family>,
                          "no mdspan here: pass a family that has `contiguous` and `strided`, such as "
                          "ferry::to_mdspan<ferry::mdspan_family::cccl>(v) of <ferry/adapters/mdspan_cccl.hpp>");
        constexpr auto rank = static_cast<std::size_t>(Rank);
        using mdspan = typename decltype(detail::mdspan_of<Family, T, rank, Access, Layout>())::type;
        return detail::make_mdspan<mdspan>(v, where, std::make_index_sequence<rank>{});
    }
}

template <class Family = mdspan_family::standard, element T, int Rank, layout Layout>
    requires(!packed_type<T> && !detail::device_mdspan_family<Family>)
// clang-format off
void to_mdspan(typed_view<T, Rank, access::device, Layout> const&) FERRY_DELETED("the host must not dereference these elements: pass a family with device_contiguous and device_strided");
// clang-format on
template <class Family = mdspan_family::standard, packed_type T, int Rank, access Access, layout Layout>
// clang-format off
void to_mdspan(typed_view<T, Rank, Access, Layout> const&) FERRY_DELETED("packed elements have no address: index the typed_view");
// clang-format on

}  // namespace ferry::inline v0
