// ferry: checks a tensor and returns a typed view of it.
#pragma once

#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/validate.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

/// Validates a view that `check_as` has found invalid, and reports the reason.
[[nodiscard]] FERRY_COLD inline bool report_invalid(tensor_view const& v, reporter r) {
    byte_reach reach;
    return check_reach(v, reach, r);
}

/// The requirements of a typed view. Passed to `check_as` as a function argument instead of template arguments, so that
/// all typed views share its code.
struct as_target {
    data_type dtype;
    std::uint32_t alignment;
    int rank;
    access_from access;
    layout strides;
    bool is_const;
    char const* unless_const = "call as<T const>, or request a copy with copy_policy::always";
};

template <class T, int Rank, access_from Access = access_from::host, layout Layout = layout::strided>
inline constexpr as_target target_of{dtype_of<T>, alignof(T), Rank, Access, Layout, std::is_const_v<T>};

/// Fails unless a view meets the requirements of a typed view.
[[nodiscard]] inline bool check_as(tensor_view const& v, as_target to, reporter r) {
    if (v.dtype() != to.dtype) {
        message text{"dtype is "};
        text << v.dtype() << ", expected " << to.dtype;
        if (v.dtype().lanes != to.dtype.lanes)
            text << " (R21: a tensor of vectors can be viewed as uint8 in the producer)";
        return report(r, errc::dtype, text << ": call as<T> with the type of the tensor, or convert the tensor");
    }
    if (to.rank != dynamic_rank && v.rank() != to.rank)
        return report(r, errc::rank,
                      message{"rank is "} << v.rank() << ", expected " << to.rank
                                          << ": reshape the tensor, or use ferry::dynamic_rank");
    std::int64_t count = 0;
    if (!has_strides(v) || !element_count(v.shape(), count)) return report_invalid(v, r);  // R25, R32
    if (!to.is_const && v.is_read_only())
        return report(r, errc::read_only, message{"the tensor is read-only (R11): "} << to.unless_const);
    if (!to.is_const)
        if (int const i = repeated_dimension(v.shape(), v.strides()); i >= 0)
            return report_repetition(i, to.unless_const, r);
    if (to.access == access_from::host && !is_host_accessible(v.device()))
        return report(r, errc::not_accessible,
                      message{"the data is on "}
                          << name(v.device().type) << ":" << v.device().id
                          << ", which the host cannot access (R39): call ferry::to_host first, or use "
                             "access_from::device");
    if (!is_addressable(v.device().type))
        return report(r, errc::not_accessible,
                      message{"the data pointer of "}
                          << name(v.device().type) << " memory is a handle, not an address: use the API of the device");
    if (to.strides == layout::contiguous && !v.is_contiguous())
        return report(r, errc::strides,
                      "the elements are not contiguous: use layout::strided, or request a copy with "
                      "copy_policy::always and layout::contiguous");
    if (v.data() == nullptr && count != 0) return report_invalid(v, r);  // R26
    if (count != 0 && reinterpret_cast<std::uintptr_t>(v.data()) % to.alignment != 0)
        return report(r, errc::alignment,
                      message{"the first element is not aligned to "}
                          << to.alignment << " bytes (R31): request a copy with copy_policy::always");
    return true;
}

}  // namespace detail

/// Checks the properties of a tensor and returns a typed view.
///
/// Checks the data type (vectors require a vector type, R21), rank, extents (R25, R32), write access (R11, R29), host
/// access (R39), alignment (R31) and contiguity. Reads metadata only. Does not synchronise.
///
/// DLPack does not require that the bytes of a bool be 0 or 1, and reading another value through `as<bool>` is
/// undefined behaviour. For data from untrusted producers, read the bytes at `tensor_view::data()` as unsigned char and
/// compare them with 0. Copies do not change the bytes.
///
/// \param v      view; its data, and for a dynamic rank its extents and strides, must outlive the result
/// \return       typed view; `try_as` returns the typed view or the error
/// \throws error  errc::dtype, rank, shape, overflow, read_only, not_accessible, strides, null_data or alignment; an
///                invalid device is reported, as errc::device, only if the extents or the data are also invalid
#if FERRY_HAS_EXCEPTIONS
template <element T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided>
[[nodiscard]] inline auto as(tensor_view const& v, std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::check_as(v, detail::target_of<T, Rank, Access, Layout>, {"ferry::as", where}));
    return typed_view<T, Rank, Access, Layout>{detail::checked_by_as{}, v};
}
#endif
template <element T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided>
[[nodiscard]] result<typed_view<T, Rank, Access, Layout>> try_as(
    tensor_view const& v, std::source_location where = std::source_location::current()) {
    detail::record to{"ferry::as", where};
    if (!detail::check_as(v, detail::target_of<T, Rank, Access, Layout>, to)) return to.outcome.error();
    return typed_view<T, Rank, Access, Layout>{detail::checked_by_as{}, v};
}

// clang-format off
FERRY_DELETED_BOTH(as, try_as, (tensor_view const&, std::source_location = {}), "this element type has no data type: specialise ferry::dtype_traits<T>",
    template <class T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided>
        requires(!element<T>));
FERRY_DELETED_BOTH(as, try_as, (inplace_view<MaxRank> const&&, std::source_location = std::source_location::current()), "the temporary inplace_view contains the extents: store it in an auto variable, or pass the rank: as<T, Rank>",
    template <element T, int Rank = dynamic_rank, access_from Access = access_from::host,
              layout Layout = layout::strided, int MaxRank>
        requires(Rank == dynamic_rank));
// clang-format on

}  // namespace FERRY_NAMESPACE
