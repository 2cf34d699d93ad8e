// ferry: the checks of a tensor that return a typed view.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/config.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace ferry::inline v0 {

/// Checks the properties of a tensor and returns a typed view.
///
/// Checks the data type (R21: vectors only as vector types), rank, extents (R25, R32), write access (R11, R29), host
/// access (R39), alignment (R31) and contiguity. Reads metadata only. Does not synchronise.
///
/// DLPack does not require that the bytes of a bool are 0 or 1, and reading another value through `as<bool>` is
/// undefined behaviour. For data from untrusted producers, read the bytes at `tensor_view::data()` as unsigned char and
/// compare them with 0. Copies do not change the bytes.
///
/// \param v      view; its data, and for a dynamic rank its extents and strides, must outlive the result
/// \param where  source location for errors
/// \return       typed view
/// \throws error  errc::dtype, rank, shape, overflow, read_only, not_accessible, strides, null_data or alignment, with
///                the fix in the message; errc::device from `validate` for a view without valid extents
template <element T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided>
[[nodiscard]] constexpr auto as(tensor_view const& v, std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::as";
    if (v.dtype() != dtype_of<T>) {
        message text{"dtype is "};
        text << v.dtype() << ", expected " << dtype_of<T>;
        if (v.dtype().lanes != dtype_of<T>.lanes)
            text << " (R21: a tensor of vectors can be viewed as uint8 in the producer)";
        detail::fail(errc::dtype, api, text << ": call as<T> with the type of the tensor, or convert the tensor",
                     where);
    }
    if (Rank != dynamic_rank && v.rank() != Rank)
        detail::fail(errc::rank, api,
                     message{"rank is "} << v.rank() << ", expected " << Rank
                                         << ": reshape the tensor, or use ferry::dynamic_rank",
                     where);
    if (!v.strides().is_implicit() && v.strides().rank() != v.rank())
        detail::fail(errc::strides, api,
                     message{"the view has "} << v.rank() << " extents but " << v.strides().rank()
                                              << " strides: pass one stride for each, or none for compact elements",
                     where);
    std::int64_t count = 0;
    if (!element_count(v.shape(), count)) detail::validate_view(v, api, where);  // reports the extents (R25, R32)
    if (!std::is_const_v<T> && v.is_read_only())
        detail::fail(
            errc::read_only, api,
            message{"the tensor is read-only (R11): call as<T const>, or request a copy with copy_policy::always"},
            where);
    if (!std::is_const_v<T> && count != 0)
        for (int i = 0; i < v.rank(); ++i)
            if (v.extent(i) > 1 && v.stride(i) == 0)
                detail::fail(
                    errc::strides, api,
                    message{"dimension "}
                        << i
                        << " has stride 0, and its elements must not be written (R29): call as<T const>, or request a "
                           "copy with copy_policy::always",
                    where);
    if (Access == access_from::host && !is_host_accessible(v.device()))
        detail::fail(errc::not_accessible, api,
                     message{"the data is on "}
                         << name(v.device().type) << ":" << v.device().id
                         << ", which the host cannot access (R39): call ferry::to_host first, or use access_from::device",
                     where);
    if (!is_addressable(v.device().type))
        detail::fail(errc::not_accessible, api,
                     message{"the data pointer of "}
                         << name(v.device().type) << " memory is a handle, not an address: use the API of the device",
                     where);
    if (Layout == layout::contiguous && !v.is_contiguous())
        detail::fail(
            errc::strides, api,
            message{"the elements are not contiguous: use layout::strided, or request a copy with copy_policy::always"},
            where);
    if (v.data() == nullptr && count != 0)
        detail::fail(errc::null_data, api,
                     message{"data is NULL, but the shape has "}
                         << count << " elements; only empty tensors have no data (R26)",
                     where);
    if (!std::is_constant_evaluated() && count != 0 && reinterpret_cast<std::uintptr_t>(v.data()) % alignof(T) != 0)
        detail::fail(errc::alignment, api,
                     message{"the first element is not aligned to "}
                         << static_cast<unsigned>(alignof(T))
                         << " bytes (R31): request a copy with copy_policy::always",
                     where);
    return typed_view<T, Rank, Access, Layout>{detail::checked_by_as{}, v};
}

template <element T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided,
          int MaxRank>
    requires(Rank == dynamic_rank)
// clang-format off
void as(inplace_view<MaxRank> const&&, std::source_location = std::source_location::current()) FERRY_DELETED("the temporary inplace_view contains the extents: store it with auto, or pass the rank: as<T, Rank>");
// clang-format on

}  // namespace ferry::inline v0
