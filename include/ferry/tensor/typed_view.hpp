// ferry: a view of a tensor whose element type, rank, access and layout are known at compile time.
#pragma once

#include <ferry/tensor/detail/refused_arguments.hpp>
#include <ferry/tensor/detail/view_iterator.hpp>

#include <span>  // the result of span(); the cheapest header that declares std::ranges::enable_view

namespace FERRY_NAMESPACE {

/// A view of elements of type T, indexed by one index for each dimension.
///
/// Created by `as`, which checks type, rank, access and layout. References the elements. A view of static rank stores
/// its extents and strides; a view of dynamic rank references them. Copyable; as thread-safe as T*.
///
/// Elements of type T const are read-only (D3). With access_from::device, host code cannot access elements; pass
/// `data()` to a kernel. Packed elements, several of which may share a byte, have no address and are returned by value.
template <class T, int Rank = dynamic_rank, access_from Access = access_from::host, layout Layout = layout::strided>
class typed_view : private detail::refused_arguments<Rank, Access == access_from::host> {
    using refused = detail::refused_arguments<Rank, Access == access_from::host>;
    static_assert(element<T>, "ferry: this element type has no data type: specialise ferry::dtype_traits<T>");
    static_assert(Rank >= dynamic_rank, "ferry: Rank must be at least 0, or ferry::dynamic_rank");
    static_assert(packed_type<T> || sizeof(T) * 8 == static_cast<std::size_t>(bits_per_element(dtype_of<T>)),
                  "ferry::dtype_traits<T>::value must have as many bits as T");
    static_assert(!packed_type<T> || dtype_of<T>.lanes == 1,
                  "ferry: packed vectors are not supported: make the lanes a dimension, and use the type of one lane as T");

   public:
    using refused::operator();
    using refused::operator[];
    using refused::begin;
    using refused::end;
    using refused::try_at;
    using refused::try_slice;
#if FERRY_HAS_EXCEPTIONS
    using refused::at;
    using refused::slice;
#endif
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    /// `T&`; for packed types, a value.
    using reference = typename detail::view_elements<T, Rank, Layout == layout::strided>::reference;

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
    typed_view(detail::checked_by_as, tensor_view const& v) noexcept : elements_{v} {}

    /// Converts a view of T to a view of T const, and a contiguous view to a strided one. A view of dynamic rank
    /// references the extents and strides of a view of static rank, which must outlive it; passing a temporary does not
    /// compile.
    ///
    /// \param v  view of the same elements, with the same access
    template <class U, int R, layout L>
        requires detail::view_convertible<U, T, R, Rank, L, Layout>
    constexpr typed_view(typed_view<U, R, Access, L> const& v) noexcept : elements_{v.elements_} {}
    template <class U, int R, layout L>
        requires(detail::view_convertible<U, T, R, Rank, L, Layout> && R != Rank)
    // clang-format off
    typed_view(typed_view<U, R, Access, L> const&&) FERRY_DELETED("a view of dynamic rank references the extents, and this view of static rank is temporary: store it in a variable");
    // clang-format on

    /// Returns the address of the first element.
    [[nodiscard]] constexpr T* data() const noexcept { return elements_.data; }
    /// Returns the number of dimensions.
    [[nodiscard]] constexpr int rank() const noexcept { return elements_.rank(); }
    /// Returns the extents.
    ///
    /// \return  view of the stored extents; for a dynamic rank, of the referenced extents
    [[nodiscard]] constexpr shape_view shape() const& noexcept { return elements_.shape(); }
    /// Returns the strides, in elements; implicit for compact row-major elements without a list of strides.
    ///
    /// \return  view of the stored strides; for a dynamic rank, of the referenced strides
    [[nodiscard]] constexpr strides_view strides() const& noexcept { return elements_.strides(); }
    // clang-format off
    shape_view shape() const&& requires(Rank != dynamic_rank) FERRY_DELETED("the extents are stored in the view, and this one is temporary: store it in a variable");
    strides_view strides() const&& requires(Rank != dynamic_rank) FERRY_DELETED("the strides are stored in the view, and this one is temporary: store it in a variable");
    // clang-format on
    /// Returns the extent of a dimension.
    ///
    /// \param i  dimension; not checked
    /// \return   extent
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return elements_.extent(i); }
    /// Returns the stride of a dimension; computes it if the strides are implicit.
    ///
    /// \param i  dimension; not checked
    /// \return   stride in elements
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return elements_.stride(i); }
    /// Returns the number of elements.
    [[nodiscard]] constexpr std::int64_t size() const noexcept { return elements_.size(); }
    /// Returns whether the elements of a packed type are padded to whole bytes (R13).
    [[nodiscard]] constexpr bool is_padded() const noexcept { return elements_.is_padded(); }

    /// Returns an element. Does not check the indices; their number is checked at compile time.
    ///
    /// \param index  one integer for each dimension; at least 0 and less than the extent
    /// \return       element, or the value of a packed element
    template <detail::integral_index... Index>
        requires(Access == access_from::host && sizeof...(Index) == Rank)
    [[nodiscard]] constexpr reference operator()(Index... index) const noexcept {
        std::int64_t const indices[] = {static_cast<std::int64_t>(index)..., 0};
        return elements_[elements_.offset(indices)];
    }
#if FERRY_HAS_EXCEPTIONS
    /// Returns an element of a view of dynamic rank. Checks the number of indices, but not their values.
    ///
    /// \param first  index of the first dimension, an integer; at least 0 and less than the extent
    /// \param rest   one integer for each remaining dimension
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices differs from the rank
    template <detail::integral_index... Index>
        requires(Access == access_from::host && Rank == dynamic_rank)
    [[nodiscard]] constexpr reference operator()(detail::located_index first, Index... rest) const {
        std::int64_t const indices[] = {first.value, static_cast<std::int64_t>(rest)...};
        return counted(indices, 1 + static_cast<int>(sizeof...(Index)), "ferry::typed_view::()", first.where);
    }
    /// Returns the element of a tensor of rank 0.
    ///
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the rank is not 0
    [[nodiscard]] constexpr reference operator()(std::source_location where = std::source_location::current()) const
        requires(Access == access_from::host && Rank == dynamic_rank)
    {
        return counted(no_indices, 0, "ferry::typed_view::()", where);
    }
#endif

    /// Returns an element, as `()` does: `v[i]` for rank 1, and `v[i, j]` if FERRY_HAS_MULTI_SUBSCRIPT is 1.
    ///
    /// \param index  one integer for each dimension; at least 0 and less than the extent
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices differs from the rank of a view of dynamic rank
#if FERRY_HAS_MULTI_SUBSCRIPT
    template <detail::integral_index... Index>
        requires(Access == access_from::host && sizeof...(Index) == Rank)
    [[nodiscard]] constexpr reference operator[](Index... index) const noexcept {
        return (*this)(index...);
    }
#else
    template <detail::integral_index Index>
        requires(Access == access_from::host && Rank == 1)
    [[nodiscard]] constexpr reference operator[](Index index) const noexcept {
        return (*this)(index);
    }
#endif
#if FERRY_HAS_EXCEPTIONS && FERRY_HAS_MULTI_SUBSCRIPT
    template <detail::integral_index... Index>
        requires(Access == access_from::host && Rank == dynamic_rank)
    [[nodiscard]] constexpr reference operator[](detail::located_index first, Index... rest) const {
        std::int64_t const indices[] = {first.value, static_cast<std::int64_t>(rest)...};
        return counted(indices, 1 + static_cast<int>(sizeof...(Index)), "ferry::typed_view::[]", first.where);
    }
#elif FERRY_HAS_EXCEPTIONS
    template <int R = Rank>  // a template, so that v[{i}] prefers the overload for a list
        requires(Access == access_from::host && R == dynamic_rank)
    [[nodiscard]] constexpr reference operator[](detail::located_index index) const {
        return counted(&index.value, 1, "ferry::typed_view::[]", index.where);
    }
#endif
#if FERRY_HAS_EXCEPTIONS
    /// Returns an element. Checks the number of indices, but not their values.
    ///
    /// \param index  list of indices, one for each dimension; each at least 0 and less than the extent
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices differs from the rank
    [[nodiscard]] constexpr reference operator[](detail::index_list index) const
        requires(Access == access_from::host)
    {
        return counted(index, index.count, "ferry::typed_view::[]", index.where);
    }
#endif

    /// Checks the indices and returns an element. `try_at` returns the value of the element, or the error.
    ///
    /// \param first  index of the first dimension, an integer
    /// \param rest   one integer for each remaining dimension
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices differs from the rank; errc::out_of_range for an invalid
    ///                index
#if FERRY_HAS_EXCEPTIONS
    template <detail::integral_index... Index>
        requires(Access == access_from::host && (Rank == dynamic_rank || sizeof...(Index) + 1 == Rank))
    [[nodiscard]] constexpr reference at(detail::located_index first, Index... rest) const {
        std::int64_t const indices[] = {first.value, static_cast<std::int64_t>(rest)...};
        return checked(indices, 1 + static_cast<int>(sizeof...(Index)), first.where);
    }
#endif
    template <detail::integral_index... Index>
        requires(Access == access_from::host && (Rank == dynamic_rank || sizeof...(Index) + 1 == Rank))
    [[nodiscard]] result<value_type> try_at(detail::located_index first, Index... rest) const {
        std::int64_t const indices[] = {first.value, static_cast<std::int64_t>(rest)...};
        return try_checked(indices, 1 + static_cast<int>(sizeof...(Index)), first.where);
    }

    /// Checks the indices and returns an element. `try_at` returns the value of the element, or the error.
    ///
    /// \param index  list of indices, one for each dimension
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the number of indices differs from the rank; errc::out_of_range for an invalid
    ///                index
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] constexpr reference at(detail::index_list index) const
        requires(Access == access_from::host)
    {
        return checked(index, index.count, index.where);
    }
#endif
    [[nodiscard]] result<value_type> try_at(detail::index_list index) const
        requires(Access == access_from::host)
    {
        return try_checked(index, index.count, index.where);
    }
    /// Returns the element of a tensor of rank 0. `try_at` returns the value of the element, or the error.
    ///
    /// \return       element, or the value of a packed element
    /// \throws error  errc::rank when the rank is not 0
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] constexpr reference at(call_site where = std::source_location::current()) const
        requires(Access == access_from::host && Rank <= 0)
    {
        return counted(no_indices, 0, "ferry::typed_view::at", where.location);
    }
#endif
    [[nodiscard]] result<value_type> try_at(call_site where = std::source_location::current()) const
        requires(Access == access_from::host && Rank <= 0)
    {
        return try_checked(no_indices, 0, where.location);
    }

    /// Returns all elements, in row-major order.
    [[nodiscard]] constexpr std::span<T> span() const noexcept
        requires(Access == access_from::host && Layout == layout::contiguous && !packed_type<T>)
    {
        return {data(), static_cast<std::size_t>(size())};
    }
    // clang-format off
    void span() const requires(Access == access_from::host && Layout == layout::strided && !packed_type<T>) FERRY_DELETED("a span requires contiguous elements: call ferry::as with layout::contiguous, if necessary on a copy (copy_policy::always, layout::contiguous)");
    void span() const requires(Access == access_from::host && packed_type<T>) FERRY_DELETED("packed elements have no address: index the typed_view");
    // clang-format on

    /// Returns an iterator to the first element of a view of rank 1: a pointer if the view is contiguous and its type
    /// is not packed, otherwise a random access iterator that remains valid as long as the elements do.
    [[nodiscard]] constexpr auto begin() const noexcept
        requires(Access == access_from::host && Rank == 1)
    {
        return iterator_at(0);
    }
    /// Returns the past-the-end iterator of a view of rank 1.
    [[nodiscard]] constexpr auto end() const noexcept
        requires(Access == access_from::host && Rank == 1)
    {
        return iterator_at(extent(0));
    }

    /// Selects a part of the elements. An index removes its dimension; a range_slice keeps it. NumPy's `v[:, ::2]` is
    /// `v.slice(full_extent, range_slice{.stride = 2})`, and `v[3, 1:5]` is `v.slice(3, range_slice{1, 5})`.
    ///
    /// \param first  index or range_slice of the first dimension, or full_extent
    /// \param rest   index, range_slice or full_extent for each remaining dimension
    /// \return       view of the same elements, which stores its extents and strides; contiguous if this view is
    ///               contiguous, no argument is a range_slice, and all indices precede all full_extent arguments;
    ///               `try_slice` returns that view or the error
    /// \throws error  errc::out_of_range for an invalid index or invalid bounds; errc::argument for a stride of 0;
    ///                errc::alignment when the first selected element is packed and does not begin on a byte boundary
#if FERRY_HAS_EXCEPTIONS
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] constexpr auto slice(detail::located_slice<range_slice> first, Rest... rest) const {
        return sliced(first.where, first.value, rest...);
    }
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] constexpr auto slice(detail::located_slice<full_extent_t> first, Rest... rest) const {
        return sliced(first.where, first.value, rest...);
    }
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] constexpr auto slice(detail::located_index first, Rest... rest) const {
        return sliced(first.where, first.value, rest...);
    }
#endif
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] auto try_slice(detail::located_slice<range_slice> first, Rest... rest) const {
        return try_sliced(first.where, first.value, rest...);
    }
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] auto try_slice(detail::located_slice<full_extent_t> first, Rest... rest) const {
        return try_sliced(first.where, first.value, rest...);
    }
    template <detail::slice_argument... Rest>
        requires(sizeof...(Rest) + 1 == Rank)
    [[nodiscard]] auto try_slice(detail::located_index first, Rest... rest) const {
        return try_sliced(first.where, first.value, rest...);
    }

   private:
    template <class, int, access_from, layout>
    friend class typed_view;
    template <class, class>
    friend struct detail::element_loop;

    static constexpr std::int64_t const* no_indices = nullptr;
    using elements = detail::view_elements<T, Rank, Layout == layout::strided>;

    constexpr explicit typed_view(elements const& e) noexcept : elements_{e} {}

    [[nodiscard]] constexpr auto iterator_at(std::int64_t index) const noexcept {
        if constexpr (Layout == layout::contiguous && !packed_type<T>) return data() + index;
        else return detail::view_iterator<typed_view>{*this, index};
    }
    template <class Part>
    [[nodiscard]] static constexpr auto view_of_part(Part const& part) {
        return typed_view<T, Part::static_rank, Access, Part::has_strides ? layout::strided : layout::contiguous>{part};
    }
    template <class... Selected>
    [[nodiscard]] auto try_sliced(std::source_location where, Selected... selected) const {
        detail::record to{"ferry::typed_view::slice", where};
        auto const part = view_of_part(detail::slice_of(elements_, to, selected...));
        using outcome = result<std::remove_const_t<decltype(part)>>;
        return to.outcome ? outcome{part} : outcome{to.outcome.error()};
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE constexpr bool check_count(int count, detail::reporter r) const {
        if (count == rank()) return true;
        return static_cast<void>(detail::report_index_count(count, rank(), r)), false;
    }
    [[nodiscard]] constexpr bool check_indices(auto const& indices, int count, detail::reporter r) const {
        if (!check_count(count, r)) return false;
        for (int i = 0; i < count; ++i)
            if (indices[i] < 0 || indices[i] >= extent(i))
                return static_cast<void>(detail::report_index(indices[i], i, extent(i), r)), false;
        return true;
    }
    [[nodiscard]] result<value_type> try_checked(auto const& indices, int count,
                                                 std::source_location where) const {
        detail::record to{"ferry::typed_view::at", where};
        if (!check_indices(indices, count, to)) return to.outcome.error();
        return value_type{elements_[elements_.offset(indices)]};
    }
#if FERRY_HAS_EXCEPTIONS
    template <class... Selected>
    [[nodiscard]] constexpr auto sliced(std::source_location where, Selected... selected) const {
        return view_of_part(detail::slice_of(elements_, {"ferry::typed_view::slice", where}, selected...));
    }
    [[nodiscard]] constexpr reference counted(auto const& indices, int count, char const* api,
                                              std::source_location where) const {
        detail::assume_valid(check_count(count, {api, where}));
        return elements_[elements_.offset(indices)];
    }
    [[nodiscard]] constexpr reference checked(auto const& indices, int count, std::source_location where) const {
        detail::assume_valid(check_indices(indices, count, {"ferry::typed_view::at", where}));
        return elements_[elements_.offset(indices)];
    }
#endif

    elements elements_;
};

namespace detail {

/// Returns the view of the elements of a typed view, whose extents and strides the result references.
template <element T, int Rank, layout Layout>
[[nodiscard]] constexpr tensor_view untyped(typed_view<T, Rank, access_from::host, Layout> const& v) noexcept {
    auto const bits = v.is_padded() ? flags::subbyte_padded : flags::none;  // R13
    return {v.data(), dtype_of<T>, v.shape(), v.strides(), cpu, bits};
}

}  // namespace detail

}  // namespace FERRY_NAMESPACE

// A view of rank 1 is a std::ranges::view whose iterators do not reference the view object. <span> declares these
// templates.
template <ferry::element T, ferry::layout Layout>
inline constexpr bool std::ranges::enable_view<ferry::typed_view<T, 1, ferry::access_from::host, Layout>> = true;
template <ferry::element T, ferry::layout Layout>
inline constexpr bool std::ranges::enable_borrowed_range<ferry::typed_view<T, 1, ferry::access_from::host, Layout>> =
    true;
