// ferry: a view of a tensor whose element type, rank, access and layout are known at compile time.
// length: the class, and `as`, whose checks its constructor requires
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/config.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/detail/view_index.hpp>
#include <ferry/tensor/detail/view_iterator.hpp>
#include <ferry/tensor/detail/view_layout.hpp>
#include <ferry/tensor/slice.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>  // the result of span()
#include <type_traits>

namespace ferry::inline v0 {

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

template <class View, class F>
struct element_loop;

/// A view of U with rank R and layout L converts to a view of T with Rank and Layout. Not required: that the two types
/// differ.
template <class U, class T, int R, int Rank, layout L, layout Layout>
concept view_convertible = (std::is_same_v<U, T> || std::is_same_v<U const, T>)&&(R == Rank || Rank == dynamic_rank) &&
    (L == Layout || Layout == layout::strided);

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
        "ferry: short vectors of packed elements are not supported: make the lanes a dimension, and "
        "use the type of one lane as T");

   public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    /// `T&`; for packed types, a value.
    using reference = std::conditional_t<packed_type<T>, value_type, T&>;

    /// Constructs a view without elements: null data, and extents of 0. With dynamic_rank, the rank is 1.
    constexpr typed_view() noexcept
        requires(Rank != 0)
    = default;
    // clang-format off
    explicit typed_view(tensor_view const&) FERRY_DELETED("call ferry::as<T, Rank>(view), which checks the type, rank and access of the view");
    // clang-format on
    /// Constructs a view; called by `as`.
    ///
    /// \param v  view that `as` has checked
    constexpr typed_view(detail::checked_by_as, tensor_view const& v) noexcept
        : data_{static_cast<T*>(v.data())}, layout_{v}, step_{bits_per_element(v.dtype(), v.is_padded())} {}

    /// Converts a view of T to a view of T const, and a contiguous view to a strided one. A view of dynamic rank
    /// references the extents and strides of a view of static rank, which must outlive it; temporaries do not compile.
    ///
    /// \param v  view of the same elements, with the same access
    template <class U, int R, layout L>
        requires detail::view_convertible<U, T, R, Rank, L, Layout>
    constexpr typed_view(typed_view<U, R, Access, L> const& v) noexcept : data_{v.data_}, layout_{v}, step_{v.step_} {}
    template <class U, int R, layout L>
        requires(detail::view_convertible<U, T, R, Rank, L, Layout> && R != Rank)
    // clang-format off
    typed_view(typed_view<U, R, Access, L> const&&) FERRY_DELETED("a view of dynamic rank references the extents, and this view of static rank is temporary: store it in a variable");
    // clang-format on

    /// Returns the address of the first element.
    [[nodiscard]] constexpr T* data() const noexcept { return data_; }
    /// Returns the number of dimensions.
    [[nodiscard]] constexpr int rank() const noexcept { return layout_.rank(); }
    /// Returns the extents.
    ///
    /// \return  view of the extents that this object stores; for a dynamic rank, of those that it references
    [[nodiscard]] constexpr shape_view shape() const& noexcept { return layout_.shape(); }
    // clang-format off
    shape_view shape() const&& requires(Rank != dynamic_rank) FERRY_DELETED("the extents are stored in the view, and this one is temporary: store it in a variable");
    // clang-format on
    /// Returns the strides, in elements; implicit for compact row-major elements without a list of strides.
    ///
    /// \return  view of the strides that this object stores; for a dynamic rank, of those that it references
    [[nodiscard]] constexpr strides_view strides() const& noexcept { return layout_.strides(); }
    // clang-format off
    strides_view strides() const&& requires(Rank != dynamic_rank) FERRY_DELETED("the strides are stored in the view, and this one is temporary: store it in a variable");
    // clang-format on
    /// Returns the extent of a dimension.
    ///
    /// \param i  dimension; not checked
    /// \return   extent
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return layout_.shape()[i]; }
    /// Returns the stride of a dimension; computes it if the strides are implicit.
    ///
    /// \param i  dimension; not checked
    /// \return   stride in elements
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept {
        return detail::stride_of(layout_.shape(), layout_.strides(), i);
    }
    /// Returns the number of elements.
    [[nodiscard]] constexpr std::int64_t size() const noexcept {
        std::uint64_t count = 1;  // `as` has checked the product; if an extent is 0, that of the others may wrap (R32)
        for (int i = 0; i < rank(); ++i) count *= static_cast<std::uint64_t>(extent(i));
        return static_cast<std::int64_t>(count);
    }

    /// Returns an element. Does not check the indices; their number is checked at compile time.
    ///
    /// \param index  one integer for each dimension; at least 0 and less than the extent
    /// \return       element, or the value of a packed element
    template <detail::integral_index... Index>
        requires(Access == access_from::host && sizeof...(Index) == Rank)
    [[nodiscard]] constexpr reference operator()(Index... index) const noexcept {
        std::int64_t const indices[] = {static_cast<std::int64_t>(index)..., 0};
        return element_at(layout_.offset(indices));
    }
    /// Returns an element of a view of dynamic rank. Checks the number of indices, but not their values.
    ///
    /// \param first  index of the first dimension, an integer; at least 0 and less than the extent
    /// \param rest   one integer for each other dimension
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices is not the rank
    template <detail::integral_index... Index>
        requires(Access == access_from::host && Rank == dynamic_rank)
    [[nodiscard]] constexpr reference operator()(detail::located_index first, Index... rest) const {
        std::int64_t const indices[] = {first.value, static_cast<std::int64_t>(rest)...};
        return counted(indices, 1 + static_cast<int>(sizeof...(Index)), "ferry::typed_view::()", first.where);
    }
    /// Returns the element of a tensor of rank 0.
    ///
    /// \param where  source location for errors
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the rank is not 0
    [[nodiscard]] constexpr reference operator()(std::source_location where = std::source_location::current()) const
        requires(Access == access_from::host && Rank == dynamic_rank)
    {
        return counted(nullptr, 0, "ferry::typed_view::()", where);
    }

    template <class... Index>
        requires(detail::refused_index<Index> || ...)
    // clang-format off
    void operator()(Index...) const FERRY_DELETED("an index is an integer, not a bool or a floating-point number: convert it to std::int64_t");
    // clang-format on

    /// Returns an element, as `()` does: `v[i]` for rank 1, and `v[i, j]` if FERRY_HAS_MULTI_SUBSCRIPT is 1.
    ///
    /// \param index  one integer for each dimension; at least 0 and less than the extent
    /// \return       element, or the value of a packed element
#if FERRY_HAS_MULTI_SUBSCRIPT
    template <detail::integral_index... Index>
        requires(Access == access_from::host && sizeof...(Index) == Rank)
    [[nodiscard]] constexpr reference operator[](Index... index) const noexcept {
        return (*this)(index...);
    }
    template <detail::integral_index... Index>
        requires(Access == access_from::host && Rank == dynamic_rank)
    [[nodiscard]] constexpr reference operator[](detail::located_index first, Index... rest) const {
        std::int64_t const indices[] = {first.value, static_cast<std::int64_t>(rest)...};
        return counted(indices, 1 + static_cast<int>(sizeof...(Index)), "ferry::typed_view::[]", first.where);
    }
#else
    template <detail::integral_index Index>
        requires(Access == access_from::host && Rank == 1)
    [[nodiscard]] constexpr reference operator[](Index index) const noexcept {
        return (*this)(index);
    }
    [[nodiscard]] constexpr reference operator[](detail::located_index index) const
        requires(Access == access_from::host && Rank == dynamic_rank)
    {
        return counted(&index.value, 1, "ferry::typed_view::[]", index.where);
    }
#endif
    /// Returns an element. Checks the number of indices, but not their values.
    ///
    /// \param index  list of indices, one for each dimension; at least 0 and less than the extent
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices is not the rank
    [[nodiscard]] constexpr reference operator[](detail::index_list index) const
        requires(Access == access_from::host)
    {
        return counted(index.values, index.count, "ferry::typed_view::[]", index.where);
    }

    template <detail::refused_index Index>
    // clang-format off
    void operator[](Index) const FERRY_DELETED("an index is an integer, not a bool or a floating-point number: convert it to std::int64_t");
    // clang-format on

    /// Returns an element, and checks the indices.
    ///
    /// \param first  index of the first dimension, an integer
    /// \param rest   one integer for each other dimension
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices is not the rank; errc::out_of_range for an invalid index
    template <detail::integral_index... Index>
        requires(Access == access_from::host && (Rank == dynamic_rank || sizeof...(Index) + 1 == Rank))
    [[nodiscard]] constexpr reference at(detail::located_index first, Index... rest) const {
        constexpr auto api = "ferry::typed_view::at";
        constexpr int count = 1 + static_cast<int>(sizeof...(Index));
        std::int64_t const indices[] = {first.value, static_cast<std::int64_t>(rest)...};
        check_count(count, api, first.where);
        for (int i = 0; i < count; ++i)
            if (indices[i] < 0 || indices[i] >= extent(i))
                detail::fail_index(indices[i], i, extent(i), api, first.where);
        return element_at(layout_.offset(indices));
    }
    template <class... Index>
        requires(detail::refused_index<Index> || ...)
    // clang-format off
    void at(Index...) const FERRY_DELETED("an index is an integer, not a bool or a floating-point number: convert it to std::int64_t");
    // clang-format on
    /// Returns the element of a tensor of rank 0.
    ///
    /// \param where  source location for errors
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the rank is not 0
    [[nodiscard]] constexpr reference at(std::source_location where = std::source_location::current()) const
        requires(Access == access_from::host && Rank <= 0)
    {
        return counted(nullptr, 0, "ferry::typed_view::at", where);
    }

    /// Returns all elements, in row-major order.
    [[nodiscard]] constexpr std::span<T> span() const noexcept
        requires(Access == access_from::host && Layout == layout::contiguous && !packed_type<T>)
    {
        return {data_, static_cast<std::size_t>(size())};
    }

    /// Returns an iterator to the first element of a view of rank 1: a pointer if the view is contiguous and its type
    /// is not packed, otherwise a random access iterator that is valid as long as the elements.
    [[nodiscard]] constexpr auto begin() const noexcept
        requires(Access == access_from::host && Rank == 1)
    {
        return iterator_at(0);
    }
    /// Returns the iterator that follows the last element of a view of rank 1.
    [[nodiscard]] constexpr auto end() const noexcept
        requires(Access == access_from::host && Rank == 1)
    {
        return iterator_at(extent(0));
    }

    /// Selects a part of the elements: an index removes its dimension, a range_slice keeps it. NumPy's `v[:, ::2]` is
    /// `v.slice(full_extent, range_slice{.stride = 2})`, and `v[3, 1:5]` is `v.slice(3, range_slice{1, 5})`.
    ///
    /// \param first  index or range_slice of the first dimension
    /// \param rest   one index or range_slice for each other dimension
    /// \return       view of the same elements, which stores its extents and strides
    /// \throws error  errc::out_of_range for bounds outside of the extent; errc::argument for a stride of 0;
    ///                errc::alignment when the first of packed elements does not begin at a byte
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] constexpr auto slice(detail::located_range first, Rest... rest) const {
        return sliced(first.where, first.value, rest...);
    }
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] constexpr auto slice(detail::located_index first, Rest... rest) const {
        return sliced(first.where, first.value, rest...);
    }

   private:
    using step = std::conditional_t<packed_type<T>, detail::packed_step, detail::whole_step>;

    template <element, int, access_from, layout>
    friend class typed_view;
    template <class, class>
    friend struct detail::element_loop;
    friend struct array_traits<typed_view>;

    /// Constructs a view of the data of `v`, for `slice`, which sets extents and strides.
    template <int R, layout L>
    constexpr typed_view(detail::checked_by_as, typed_view<T, R, Access, L> const& v) noexcept
        : data_{v.data_}, step_{v.step_} {}

    [[nodiscard]] constexpr auto iterator_at(std::int64_t index) const noexcept {
        if constexpr (Layout == layout::contiguous && !packed_type<T>) return data_ + index;
        else return detail::view_iterator<typed_view>{*this, index};
    }
    template <class... Selected>
    [[nodiscard]] constexpr auto sliced(std::source_location where, Selected... selected) const {
        constexpr auto api = "ferry::typed_view::slice";
        constexpr int kept = (0 + ... + (std::is_same_v<Selected, range_slice> ? 1 : 0));
        typed_view<T, kept, Access> out{detail::checked_by_as{}, *this};
        bool const is_empty = size() == 0;  // the strides may then have any value (R26)
        std::int64_t offset = 0;
        int from = 0, to = 0;
        auto const add = [&]<class S>(S s) {
            int const i = from++;
            detail::dimension const whole{extent(i), is_empty ? 0 : stride(i), 0};
            if constexpr (std::is_same_v<S, range_slice>) {
                auto const d = detail::select(s, i, whole, api, where);
                out.layout_.set(to++, d.extent, d.stride);
                offset += d.offset;
            } else {
                offset += detail::select(static_cast<std::int64_t>(s), i, whole, api, where).offset;
            }
        };
        (add(selected), ...);
        if (out.size() != 0) out.data_ = address_of(offset, api, where);
        return out;
    }
    [[nodiscard]] constexpr T* address_of(std::int64_t offset, char const* api, std::source_location where) const {
        if constexpr (packed_type<T>) {
            if (offset * step_.bits % 8 != 0)
                detail::fail(errc::alignment, api,
                             message{"element "} << offset
                                                 << " does not begin on a byte boundary (R19): select another first "
                                                    "element, or request padded elements (R13)",
                             where);
            return data_ + offset * step_.bits / 8;
        } else {
            return data_ + offset;
        }
    }

    [[nodiscard]] constexpr reference element_at(std::int64_t offset) const noexcept {
        if constexpr (packed_type<T>) {
            // The next byte is read only if the element extends into it, because it may lie beyond the data (R19).
            auto const* bytes = reinterpret_cast<unsigned char const*>(data_);
            std::int64_t const bit = offset * step_.bits, byte = bit >> 3;
            unsigned const shift = static_cast<unsigned>(bit & 7), width = dtype_of<T>.bits;
            unsigned value = unsigned{bytes[byte]} >> shift;
            if (shift + width > 8) value |= unsigned{bytes[byte + 1]} << (8 - shift);
            return value_type{static_cast<std::uint8_t>(value & ((1u << width) - 1))};
        } else {
            return data_[offset];
        }
    }

    FERRY_ALWAYS_INLINE constexpr void check_count(int count, char const* api, std::source_location where) const {
        if (count != rank()) detail::fail_index_count(count, rank(), api, where);  // mutant: index_count
    }
    [[nodiscard]] constexpr reference counted(std::int64_t const* indices, int count, char const* api,
                                              std::source_location where) const {
        check_count(count, api, where);
        return element_at(layout_.offset(indices));
    }

    T* data_ = nullptr;
    detail::view_layout<Rank, Layout == layout::strided> layout_;
    [[no_unique_address]] step step_{bits_per_element(dtype_of<T>)};
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

/// Exports typed views by `borrow` or as copies, since their elements belong to another object. A view does not store
/// its device: it is exported as host memory, on which no work may be pending.
template <element T, int Rank, layout Layout>
struct array_traits<typed_view<T, Rank, access_from::host, Layout>> {
    using array = typed_view<T, Rank, access_from::host, Layout>;
    static constexpr bool owns = false;
    /// Returns a view, which is read-only if T is const (R11).
    ///
    /// \param v  typed view, whose extents and strides the result references
    /// \return   view
    [[nodiscard]] static constexpr tensor_view view(array const& v) noexcept {
        auto bits = flags::none;
        if constexpr (packed_type<T>)
            if (v.step_.bits != bits_per_element(dtype_of<T>)) bits = flags::subbyte_padded;  // R13
        return {v.data(), dtype_of<T>, v.shape(), v.strides(), cpu, bits};
    }
};

template <element T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided,
          int MaxRank>
    requires(Rank == dynamic_rank)
// clang-format off
void as(inplace_view<MaxRank> const&&, std::source_location = std::source_location::current()) FERRY_DELETED("the temporary inplace_view contains the extents: store it with auto, or pass the rank: as<T, Rank>");
// clang-format on

}  // namespace ferry::inline v0
