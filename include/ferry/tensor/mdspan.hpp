// ferry: conversion of typed views to mdspan. Supports any implementation of mdspan; includes only std::mdspan.
#pragma once

#include <ferry/tensor/typed_view.hpp>

#if FERRY_HAS_STD_MDSPAN
#include <mdspan>
#endif

namespace FERRY_NAMESPACE {

/// Implementations of mdspan.
///
/// A family is a struct with two alias templates, `contiguous<T, Rank>` (layout_right) and `strided<T, Rank>`
/// (layout_stride), both with dynamic std::int64_t extents. Define a family to use another implementation. A family
/// with `device_contiguous` and `device_strided` supports access_from::device; their accessor must prevent host
/// access.
namespace mdspan_family {

/// Family of an implementation with the template parameters of the standard:
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
/// Family of std::mdspan.
struct standard : of<std::mdspan, std::dextents, std::layout_right, std::layout_stride> {};
#else
/// Family of std::mdspan; incomplete, because this standard library has no std::mdspan.
struct standard;
#endif

}  // namespace mdspan_family

namespace detail {

/// A family of mdspans for host memory. Does not check for the constructors that `to_mdspan` calls.
template <class Family>
concept host_mdspan_family = requires {
    typename Family::template contiguous<float, 2>;
    typename Family::template strided<float, 2>;
};

/// A family of mdspans for device memory, whose accessor prevents host access. It need not have mdspans for the host.
template <class Family>
concept device_mdspan_family = requires {
    typename Family::template device_contiguous<float, 2>;
    typename Family::template device_strided<float, 2>;
};

/// Returns the type of the mdspan of a typed view.
template <class Family, class T, std::size_t Rank, access_from Access, layout Layout>
[[nodiscard]] consteval auto mdspan_of() {
    if constexpr (Access == access_from::host && Layout == layout::contiguous)
        return std::type_identity<typename Family::template contiguous<T, Rank>>{};
    else if constexpr (Access == access_from::host)
        return std::type_identity<typename Family::template strided<T, Rank>>{};
    else if constexpr (Layout == layout::contiguous)
        return std::type_identity<typename Family::template device_contiguous<T, Rank>>{};
    else return std::type_identity<typename Family::template device_strided<T, Rank>>{};
}

/// Writes the strides for layout_stride. Fails unless they are positive and dimensions neither overlap nor interleave.
/// Strides of dimensions of extent 1 (R27) and of empty tensors (R26) are replaced by compact ones.
template <class View, class Strides>
[[nodiscard]] constexpr bool fill_mdspan_strides(View const& v, Strides& out, reporter r) {
    bool const empty = v.size() == 0;
    std::int64_t compact = 1;
    for (int i = v.rank(); i-- > 0;) {
        bool const is_used = v.extent(i) != 1 && !empty;
        std::int64_t const stride = is_used ? v.stride(i) : compact > 0 ? compact : 1;
        if (stride <= 0)
            return report(r, errc::strides,
                          message{"strides["}
                              << i << "] is " << stride
                              << ", expected a positive stride, as mdspan requires (R28, R29): index the "
                                 "typed_view, or request a copy with copy_policy::always");
        out[static_cast<std::size_t>(i)] = stride;
        compact = compact_step(stride, v.extent(i));
    }
    if (empty) return true;
    for (int i = 0; i < v.rank(); ++i)
        for (int k = 0; k < v.rank(); ++k) {
            auto const inner = v.stride(k), outer = v.stride(i);
            if (i == k || v.extent(i) == 1 || v.extent(k) == 1 || inner > outer) continue;
            if (outer / inner < v.extent(k))
                return report(r, errc::strides,
                              message{"the elements overlap or interleave in dimensions "}
                                  << i << " and " << k
                                  << ", which layout_stride does not allow: index the typed_view, or request a copy "
                                     "with copy_policy::always");
        }
    return true;
}

/// Returns strides that every mapping accepts, for an mdspan that is not used.
template <class Strides, class View>
[[nodiscard]] constexpr Strides compact_mdspan_strides(View const& v) {
    Strides out{};
    std::int64_t step = 1;
    for (int i = v.rank(); i-- > 0;) {
        out[static_cast<std::size_t>(i)] = step;
        step = compact_step(step, v.extent(i));
    }
    return out;
}

/// Returns whether a typed view converts to an mdspan. If not, the message of a static_assert states the reason.
template <class Family, class T, int Rank, access_from Access, layout Layout>
[[nodiscard]] consteval bool converts_to_mdspan() {
    static_assert(Rank != dynamic_rank, "an mdspan has a static rank: call as<T, Rank>");
    if constexpr (Access == access_from::host)
        static_assert(host_mdspan_family<Family>,
                      "the family has no mdspan for the host: pass a family with `contiguous` and `strided`, such as "
                      "ferry::mdspan_family::cccl of <ferry/adapters/mdspan_cccl.hpp>");
    return Rank != dynamic_rank;
}

template <class Mdspan, class T, int Rank, access_from Access, layout Layout, std::size_t... I>
[[nodiscard]] constexpr Mdspan fill_mdspan(typed_view<T, Rank, Access, Layout> const& v, reporter r,
                                           std::index_sequence<I...>) {
    typename Mdspan::extents_type const extents(v.extent(static_cast<int>(I))...);
    if constexpr (Layout == layout::contiguous) {
        return Mdspan(v.data(), extents);
    } else {
        using mapping = typename Mdspan::mapping_type;
        std::remove_cvref_t<decltype(std::declval<mapping const&>().strides())> strides{};
        if (!fill_mdspan_strides(v, strides, r)) strides = compact_mdspan_strides<decltype(strides)>(v);
        return Mdspan(v.data(), mapping(extents, strides));
    }
}

/// Implements to_mdspan and try_to_mdspan. On failure, returns an mdspan that must not be used.
template <class Family, class T, int Rank, access_from Access, layout Layout>
[[nodiscard]] constexpr auto make_mdspan(typed_view<T, Rank, Access, Layout> const& v, reporter r) {
    constexpr auto rank = static_cast<std::size_t>(Rank);
    using mdspan = typename decltype(mdspan_of<Family, T, rank, Access, Layout>())::type;
    return fill_mdspan<mdspan>(v, r, std::make_index_sequence<rank>{});
}

}  // namespace detail

/// Converts a typed view to an mdspan: layout::contiguous to layout_right, layout::strided to layout_stride.
///
/// The mdspan references the elements, which must outlive it. Does not allocate.
///
/// \tparam Family  mdspan_family::standard, one of adapters/mdspan_*.hpp, or another family
/// \param v      typed view of static rank
/// \return       mdspan; `try_to_mdspan` returns the mdspan or the error
/// \throws error  errc::strides for zero or negative strides, and for dimensions that overlap or interleave, which
///                layout_stride does not allow (R28, R29)
#if FERRY_HAS_EXCEPTIONS
template <class Family = mdspan_family::standard, element T, int Rank, access_from Access, layout Layout>
    requires(!packed_type<T> && (Access == access_from::host || detail::device_mdspan_family<Family>))
[[nodiscard]] constexpr auto to_mdspan(typed_view<T, Rank, Access, Layout> const& v,
                                       std::source_location where = std::source_location::current()) {
    if constexpr (detail::converts_to_mdspan<Family, T, Rank, Access, Layout>())
        return detail::make_mdspan<Family>(v, {"ferry::to_mdspan", where});
}
#endif
template <class Family = mdspan_family::standard, element T, int Rank, access_from Access, layout Layout>
    requires(!packed_type<T> && (Access == access_from::host || detail::device_mdspan_family<Family>))
[[nodiscard]] auto try_to_mdspan(typed_view<T, Rank, Access, Layout> const& v,
                                 std::source_location where = std::source_location::current()) {
    if constexpr (detail::converts_to_mdspan<Family, T, Rank, Access, Layout>()) {
        detail::record to{"ferry::to_mdspan", where};
        auto const m = detail::make_mdspan<Family>(v, to);
        using outcome = result<std::remove_const_t<decltype(m)>>;
        return to.outcome ? outcome{m} : outcome{to.outcome.error()};
    }
}

// clang-format off
FERRY_DELETED_BOTH(to_mdspan, try_to_mdspan, (typed_view<T, Rank, access_from::device, Layout> const&), "the host cannot access these elements: pass a family with device_contiguous and device_strided",
    template <class Family = mdspan_family::standard, element T, int Rank, layout Layout>
        requires(!packed_type<T> && !detail::device_mdspan_family<Family>));
FERRY_DELETED_BOTH(to_mdspan, try_to_mdspan, (typed_view<T, Rank, Access, Layout> const&), "packed elements have no address: index the typed_view",
    template <class Family = mdspan_family::standard, packed_type T, int Rank, access_from Access, layout Layout>);
// clang-format on

}  // namespace FERRY_NAMESPACE
