// ferry: a view of a tensor whose element type, rank, access and layout are known at compile time.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>  // the result of span()
#include <type_traits>

namespace ferry::inline v0 {

/// The `Rank` of a view whose rank is known only at run time.
inline constexpr int dynamic_rank = -1;

/// The code that may access the elements (D4).
enum class access_from : std::uint8_t {
    host,   ///< host code
    device  ///< device code only; host code can obtain their address
};

/// The strides that a view supports.
enum class layout : std::uint8_t {
    strided,    ///< any strides
    contiguous  ///< compact row-major
};

namespace detail {

/// Constructor tag: `as` has checked the view.
struct checked_by_as {
    explicit checked_by_as() = default;
};

[[noreturn]] FERRY_COLD inline void fail_index_count(int count, int rank, char const* api) {
    fail(errc::rank, api,
         message{} << count << " indices for a tensor of rank " << rank << ": pass one index for each dimension");
}

/// Stores copies of extents and strides, so that a view of static rank references only the elements.
template <int Rank>
struct extents_and_strides {
    std::int64_t extents[Rank == 0 ? 1 : Rank] = {};
    std::int64_t steps[Rank == 0 ? 1 : Rank] = {};

    constexpr explicit extents_and_strides(tensor_view const& v) noexcept {
        for (int i = 0; i < Rank; ++i) {
            extents[i] = v.extent(i);
            steps[i] = v.stride(i);
        }
    }
    [[nodiscard]] static constexpr int rank() noexcept { return Rank; }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return {extents, Rank}; }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return extents[i]; }
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return steps[i]; }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        for (int i = 0; i < Rank; ++i) at += index[i] * steps[i];
        return at;
    }
};

/// References the extents and strides of the tensor.
template <>
struct extents_and_strides<dynamic_rank> {
    tensor_view view;

    constexpr explicit extents_and_strides(tensor_view const& v) noexcept : view{v} {}
    [[nodiscard]] constexpr int rank() const noexcept { return view.rank(); }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return view.shape(); }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return view.extent(i); }
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return view.stride(i); }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        if (view.strides().is_implicit())
            for (int i = 0; i < rank(); ++i) at = at * extent(i) + index[i];
        else
            for (int i = 0; i < rank(); ++i) at += index[i] * view.strides()[i];
        return at;
    }
};

}  // namespace detail

/// A view of elements of type T, indexed by one index for each dimension.
///
/// Created by `as`, which checks type, rank, access and layout. References the elements; a view of dynamic rank also
/// references the extents and strides, of which a view of static rank stores a copy. Copyable; as thread-safe as T*.
///
/// Elements of type T const are read-only (D3). With access_from::device, host code cannot access elements: pass
/// `data()` to a kernel. Packed elements, several of which may share a byte, have no address and are returned by value.
template <element T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided>
class typed_view {
    static_assert(Rank >= dynamic_rank, "Rank must be a number of dimensions, or ferry::dynamic_rank");
    static_assert(packed_type<T> || sizeof(T) * 8 == static_cast<std::size_t>(bits_per_element(dtype_of<T>)),
                  "ferry::dtype_traits<T>::value must have as many bits as T");

    static_assert(
        !packed_type<T> || dtype_of<T>.lanes == 1,
        "ferry: short vectors of packed elements are not supported: make the lanes a dimension, and T one lane");

   public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    /// `T&`; for packed types, a value.
    using reference = std::conditional_t<packed_type<T>, value_type, T&>;

    // clang-format off
    explicit typed_view(tensor_view const&) FERRY_DELETED("call ferry::as<T, Rank>(view), which checks the type, rank and access of the view");
    // clang-format on
    /// Constructs a view; called by `as`.
    ///
    /// \param v  view that `as` has checked
    constexpr typed_view(detail::checked_by_as, tensor_view const& v) noexcept
        : data_{static_cast<T*>(v.data())}, layout_{v}, step_{bits_per_element(v.dtype(), v.is_padded())} {}

    /// Returns the address of the first element.
    [[nodiscard]] constexpr T* data() const noexcept { return data_; }
    /// Returns the number of dimensions.
    [[nodiscard]] constexpr int rank() const noexcept { return layout_.rank(); }
    /// \param i  dimension
    /// \return   extent of the dimension
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return layout_.extent(i); }
    /// \param i  dimension
    /// \return   stride of the dimension, in elements
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return layout_.stride(i); }
    /// Returns the number of elements.
    [[nodiscard]] constexpr std::int64_t size() const noexcept {
        std::int64_t count = 0;
        static_cast<void>(element_count(layout_.shape(), count));
        return count;
    }

    /// Returns an element. Checks the number of indices (at compile time for a static rank), but not their values.
    ///
    /// \param index  one index for each dimension; at least 0 and less than the extent
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices is not the dynamic rank
    template <std::convertible_to<std::int64_t>... Index>
        requires(Access == access_from::host && (Rank == dynamic_rank || sizeof...(Index) == Rank))
    [[nodiscard]] constexpr reference operator()(Index... index) const noexcept(Rank != dynamic_rank) {
        std::int64_t const indices[] = {static_cast<std::int64_t>(index)..., 0};
        if constexpr (Rank == dynamic_rank) check_count(static_cast<int>(sizeof...(Index)), "ferry::typed_view::()");
        return element_at(layout_.offset(indices));
    }
    /// Returns an element, and checks the indices.
    ///
    /// \param index  one index for each dimension
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices is not the rank; errc::out_of_range for an invalid index
    template <std::convertible_to<std::int64_t>... Index>
        requires(Access == access_from::host && (Rank == dynamic_rank || sizeof...(Index) == Rank))
    [[nodiscard]] constexpr reference at(Index... index) const {
        std::int64_t const indices[] = {static_cast<std::int64_t>(index)..., 0};
        check_count(static_cast<int>(sizeof...(Index)), "ferry::typed_view::at");
        check_bounds(indices);
        return element_at(layout_.offset(indices));
    }
    /// Returns an element. Checks the number of indices, but not their values.
    ///
    /// \param index  one index for each dimension; at least 0 and less than the extent
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices is not the rank
    [[nodiscard]] constexpr reference operator[](shape_view index) const
        requires(Access == access_from::host)
    {
        check_count(index.rank(), "ferry::typed_view::[]");
        return element_at(layout_.offset(index.data()));
    }

    /// Returns all elements, in row-major order.
    [[nodiscard]] constexpr std::span<T> span() const noexcept
        requires(Access == access_from::host && Layout == layout::contiguous && !packed_type<T>)
    {
        return {data_, static_cast<std::size_t>(size())};
    }

   private:
    [[nodiscard]] constexpr reference element_at(std::int64_t offset) const noexcept {
        if constexpr (packed_type<T>) {
            // The next byte is read only if the element extends into it, because it may lie beyond the data (R19).
            auto const* bytes = reinterpret_cast<unsigned char const*>(data_);
            std::int64_t const bit = offset * step_, byte = bit >> 3;
            unsigned const shift = static_cast<unsigned>(bit & 7), width = dtype_of<T>.bits;
            unsigned value = unsigned{bytes[byte]} >> shift;
            if (shift + width > 8) value |= unsigned{bytes[byte + 1]} << (8 - shift);
            return value_type{static_cast<std::uint8_t>(value & ((1u << width) - 1))};
        } else {
            return data_[offset];
        }
    }

    FERRY_ALWAYS_INLINE constexpr void check_count(int count, char const* api) const {
        if (count != rank()) detail::fail_index_count(count, rank(), api);  // mutant: index_count
    }
    constexpr void check_bounds(std::int64_t const* index) const {
        for (int i = 0; i < rank(); ++i)
            if (index[i] < 0 || index[i] >= extent(i))
                detail::fail(
                    errc::out_of_range, "ferry::typed_view::at",
                    message{"index "}
                        << index[i] << " is out of range for dimension " << i << " of extent " << extent(i)
                        << ": pass an index that is at least 0 and less than the extent");
    }

    T* data_;
    detail::extents_and_strides<Rank> layout_;
    std::int64_t step_;
};

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

}  // namespace ferry::inline v0
