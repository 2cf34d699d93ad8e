// ferry: a tensor whose element type, rank, access and layout are known to the compiler.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>  // span() is the point of layout::contiguous
#include <type_traits>

namespace ferry::inline v0 {

/// The rank of a view that learns it at run time.
inline constexpr int dynamic_rank = -1;

/// Who may dereference the elements: code on the host, or nobody here (D4).
enum class access : std::uint8_t { host, device };

/// What is known of the strides: nothing, or that the elements are compact and row-major.
enum class layout : std::uint8_t { strided, contiguous };

namespace detail {

/// Says that `as` has checked the view from which a typed_view is made.
struct checked_by_as {
    explicit checked_by_as() = default;
};

[[noreturn]] FERRY_COLD inline void fail_index_count(int count, int rank, char const* api) {
    fail(errc::rank, api,
         message{} << count << " indices for a tensor of rank " << rank << ": pass one for each dimension");
}

/// Extents and strides by value, so that a view of static rank points at nothing but the elements.
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

/// Extents and strides borrowed from the tensor.
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

/// Elements of type T behind indices. Borrows the elements; a view of static rank copies extents and strides, one of
/// dynamic rank borrows them too. Made by `as`, which has checked all that the type says. A value; thread-safe as T*
/// is.
///
/// T const reads, T reads and writes (D3). With access::device nothing dereferences: `data()` is for kernels. Elements
/// of packed types have no address and are read by value, two of them a byte, say.
template <element T, int Rank = dynamic_rank, access Access = access::host, layout Layout = layout::strided>
class typed_view {
    static_assert(Rank >= dynamic_rank, "Rank counts dimensions; ferry::dynamic_rank leaves it open");
    static_assert(packed_type<T> || sizeof(T) * 8 == static_cast<std::size_t>(bits_per_element(dtype_of<T>)),
                  "ferry::dtype_traits<T>::value must have as many bits as T");

    static_assert(
        !packed_type<T> || dtype_of<T>.lanes == 1,
        "ferry: short vectors of packed elements are not read as one value: make the lanes a dimension, with T one lane");

   public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    /// `T&`, or the value of a packed element.
    using reference = std::conditional_t<packed_type<T>, value_type, T&>;

    // clang-format off
    explicit typed_view(tensor_view const&) FERRY_DELETED("call ferry::as<T, Rank>(view), which checks that the view is what the type says");
    // clang-format on
    constexpr typed_view(detail::checked_by_as, tensor_view const& v) noexcept
        : data_{static_cast<T*>(v.data())}, where_{v}, step_{bits_per_element(v.dtype(), v.is_padded())} {}

    [[nodiscard]] constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] constexpr int rank() const noexcept { return where_.rank(); }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return where_.extent(i); }
    /// In elements.
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return where_.stride(i); }
    [[nodiscard]] constexpr std::int64_t size() const noexcept {
        std::int64_t count = 0;
        static_cast<void>(element_count(where_.shape(), count));
        return count;
    }

    /// The element at these indices, whose values are not checked. Their number is: by the compiler for a static rank.
    /// \param index  one for each dimension, from 0 to the extent
    /// \return       the element, or the value of a packed one
    /// \throws error  errc::rank: not one index for each dimension of a view of dynamic rank
    template <std::convertible_to<std::int64_t>... Index>
        requires(Access == access::host && (Rank == dynamic_rank || sizeof...(Index) == Rank))
    [[nodiscard]] constexpr reference operator()(Index... index) const noexcept(Rank != dynamic_rank) {
        std::int64_t const indices[] = {static_cast<std::int64_t>(index)..., 0};
        if constexpr (Rank == dynamic_rank) check_count(static_cast<int>(sizeof...(Index)), "ferry::typed_view::()");
        return element_at(where_.offset(indices));
    }
    /// The element at these indices.
    /// \param index  one for each dimension
    /// \return       the element, or the value of a packed one
    /// \throws error  errc::rank or errc::out_of_range
    template <std::convertible_to<std::int64_t>... Index>
        requires(Access == access::host && (Rank == dynamic_rank || sizeof...(Index) == Rank))
    [[nodiscard]] constexpr reference at(Index... index) const {
        std::int64_t const indices[] = {static_cast<std::int64_t>(index)..., 0};
        check_count(static_cast<int>(sizeof...(Index)), "ferry::typed_view::at");
        check_bounds(indices);
        return element_at(where_.offset(indices));
    }
    /// The element at a list of indices, whose values are not checked. Their number is.
    /// \param index  one for each dimension, from 0 to the extent
    /// \return       the element, or the value of a packed one
    /// \throws error  errc::rank: not one index for each dimension
    [[nodiscard]] constexpr reference operator[](shape_view index) const
        requires(Access == access::host)
    {
        check_count(index.rank(), "ferry::typed_view::[]");
        return element_at(where_.offset(index.data()));
    }

    /// The elements one after the other.
    [[nodiscard]] constexpr std::span<T> span() const noexcept
        requires(Access == access::host && Layout == layout::contiguous && !packed_type<T>)
    {
        return {data_, static_cast<std::size_t>(size())};
    }

   private:
    [[nodiscard]] constexpr reference element_at(std::int64_t offset) const noexcept {
        if constexpr (packed_type<T>) {
            // An element may straddle two bytes; the second is read only then, for it may not be ours (R19).
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
                    message{"index "} << index[i] << " is outside dimension " << i << " of extent " << extent(i));
    }

    T* data_;
    detail::extents_and_strides<Rank> where_;
    std::int64_t step_;
};

/// Checks that a tensor is what the type says and gives the typed view: data type (R21: vectors only as vector types),
/// rank, constness (R11), host access (R39), alignment (R31), contiguity.
///
/// Borrows; reads metadata only; does not synchronise. DLPack does not say that the bytes of a bool are 0 or 1, and to
/// read another one through `as<bool>` is undefined behaviour: from producers that are not trusted, read the bytes
/// behind `tensor_view::data()` as unsigned char and compare them with 0, as ferry's own code does. Copies keep them.
/// \throws error  errc::dtype, rank, shape, overflow, read_only, not_accessible, strides, null_data or alignment: the
///                message says what would do
template <element T, int Rank = dynamic_rank, access Access = access::host, layout Layout = layout::strided>
[[nodiscard]] constexpr auto as(tensor_view const& v, std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::as";
    if (v.dtype() != dtype_of<T>) {
        message text{"dtype is "};
        text << v.dtype() << ", this view wants " << dtype_of<T>;
        if (v.dtype().lanes != dtype_of<T>.lanes)
            text << " (R21: a tensor of vectors can be viewed as uint8 at its producer)";
        detail::fail(errc::dtype, api, text << ": ask for as<T> with the tensor's type, or convert it first", where);
    }
    if (Rank != dynamic_rank && v.rank() != Rank)
        detail::fail(errc::rank, api,
                     message{"rank is "} << v.rank() << ", this view wants " << Rank
                                         << ": reshape the tensor or ask for ferry::dynamic_rank",
                     where);
    if (!v.strides().is_implicit() && v.strides().rank() != v.rank())
        detail::fail(errc::strides, api,
                     message{"the view has "} << v.rank() << " extents but " << v.strides().rank()
                                              << " strides: give one for each, or none for compact elements",
                     where);
    std::int64_t count = 0;
    bool const has_extents = v.rank() == 0 || v.shape().data() != nullptr;  // mutant: as_extents
    // Throws with the reason when there are no extents, or they cannot be counted (R25, R32).
    if (!has_extents || !element_count(v.shape(), count)) detail::validate_view(v, api, where);
    if (!std::is_const_v<T> && v.is_read_only())
        detail::fail(
            errc::read_only, api,
            message{"the tensor is read-only (R11): ask for as<T const>, or for a copy with copy_policy::always"},
            where);
    if (!std::is_const_v<T> && count != 0)
        for (int i = 0; i < v.rank(); ++i)
            if (v.extent(i) > 1 && v.stride(i) == 0)
                detail::fail(
                    errc::strides, api,
                    message{"dimension "}
                        << i
                        << " repeats one element, which must not be written through (R29): ask for as<T const>, "
                           "or for a copy with copy_policy::always",
                    where);
    if (Access == access::host && !is_host_accessible(v.device()))
        detail::fail(errc::not_accessible, api,
                     message{"the data is on "}
                         << name(v.device().type) << ":" << v.device().id
                         << ", which the host cannot read (R39): call ferry::to_host first, or ask for access::device",
                     where);
    if (!is_addressable(v.device().type))
        detail::fail(errc::not_accessible, api,
                     message{"data on "} << name(v.device().type) << " is a handle, not an address: use its own API",
                     where);
    if (Layout == layout::contiguous && !v.is_contiguous())
        detail::fail(
            errc::strides, api,
            message{"the elements are not contiguous: ask for layout::strided, or for a copy with copy_policy::always"},
            where);
    if (v.data() == nullptr && count != 0)
        detail::fail(errc::null_data, api, message{"there is no data behind the view's elements (R26)"}, where);
    if (!std::is_constant_evaluated() && count != 0 && reinterpret_cast<std::uintptr_t>(v.data()) % alignof(T) != 0)
        detail::fail(errc::alignment, api,
                     message{"the first element is not aligned to "}
                         << static_cast<unsigned>(alignof(T))
                         << " bytes (R31): ask for a copy with copy_policy::always",
                     where);
    return typed_view<T, Rank, Access, Layout>{detail::checked_by_as{}, v};
}

}  // namespace ferry::inline v0
