// ferry: views of extents and strides.
#pragma once

#include <ferry/base/detail/checked.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace FERRY_NAMESPACE {
namespace detail {

/// A type of extents and strides: an integer of at most 64 bits, but not bool or a character type. Includes signed char
/// and unsigned char, which are std::int8_t and std::uint8_t. The value need not fit in std::int64_t.
template <class I>
concept extent_integer =
    std::integral<I> && sizeof(I) <= sizeof(std::int64_t) && !std::same_as<I, bool> && !std::same_as<I, char> &&
    !std::same_as<I, wchar_t> && !std::same_as<I, char8_t> && !std::same_as<I, char16_t> && !std::same_as<I, char32_t>;

/// A bool, a character, an integer of more than 64 bits or a floating-point number. Depends on the type only, not on
/// the value.
template <class I>
concept refused_extent = (std::integral<I> && !extent_integer<I>) || std::floating_point<I>;

/// A contiguous container of std::int64_t with `data()` and `size()`: std::vector, std::array or std::span, for
/// example. Iterators are not required.
template <class Range>
concept integer_list = requires(Range const& r) {
    { r.data() } -> std::convertible_to<std::int64_t const*>;
    { r.size() } -> std::convertible_to<std::size_t>;
};

/// Returns the address of the first value of a contiguous list.
template <class List>
constexpr auto list_data(List const& l) noexcept -> decltype(l.data()) {
    return l.data();
}
template <class T>
constexpr T const* list_data(std::initializer_list<T> l) noexcept {
    return l.begin();
}

/// A contiguous container of integers of any type, or a std::initializer_list. Iterators are not required.
template <class List>
concept any_integer_list = requires(List const& l) {
    requires extent_integer<std::remove_cvref_t<decltype(*list_data(l))>>;
    { l.size() } -> std::convertible_to<std::size_t>;
};

/// A contiguous container of values that are not valid extents. Iterators are not required.
template <class List>
concept refused_extent_list =
    requires(List const& l) { requires refused_extent<std::remove_cvref_t<decltype(*list_data(l))>>; };

/// The extents of an mdspan. The type need not be std::extents.
template <class Extents>
concept mdspan_extents = requires(Extents const& e, typename Extents::rank_type i) {
    { Extents::rank() } -> std::convertible_to<std::size_t>;
    { e.extent(i) } -> std::integral;
};

/// A list whose values shape_view and strides_view cannot reference, because they are not an array of std::int64_t.
template <class List>
concept foreign_list = (any_integer_list<List> && !integer_list<List>) || mdspan_extents<List>;

/// A list that consists of a pointer to its values and a size, such as std::span or c10::IntArrayRef. A view may
/// reference the values of a temporary list of this kind. The type need not come from the standard library.
template <class List>
concept borrowed_list =
    integer_list<List> && std::is_trivially_copyable_v<List> && sizeof(List) <= 2 * sizeof(void*) &&
    requires(List const& l) { requires std::constructible_from<List, decltype(l.data()), std::size_t>; };

class int64_list;
/// A list that a view may reference although the list object is temporary.
template <class List>
concept viewable_when_temporary = std::derived_from<List, int64_list> || borrowed_list<List>;

/// Common base of shape_view and strides_view.
class int64_list {
   public:
    constexpr int64_list() = default;
    constexpr int64_list(std::int64_t const* data, int rank) noexcept : data_{data}, rank_{rank} {}

    /// Returns the address of the first value; may be null.
    [[nodiscard]] constexpr std::int64_t const* data() const noexcept { return data_; }
    /// Returns the number of values.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return static_cast<std::size_t>(rank_); }
    /// Returns the number of values.
    [[nodiscard]] constexpr int rank() const noexcept { return rank_; }
    /// Returns the value of a dimension. Does not check the index.
    ///
    /// \param i  dimension; at least 0 and less than the rank
    /// \return   value
    [[nodiscard]] constexpr std::int64_t operator[](int i) const noexcept { return data_[i]; }
    [[nodiscard]] constexpr std::int64_t const* begin() const noexcept { return data_; }
    [[nodiscard]] constexpr std::int64_t const* end() const noexcept {
        return data_ == nullptr || rank_ < 0 ? data_ : data_ + rank_;
    }

   protected:
    [[nodiscard]] constexpr bool has_values_of(int64_list const& other) const noexcept {
        if (rank_ != other.rank_) return false;
        if (data_ == nullptr || other.data_ == nullptr) return data_ == other.data_ || rank_ == 0;
        for (int i = 0; i < rank_; ++i)
            if (data_[i] != other.data_[i]) return false;
        return true;
    }

    std::int64_t const* data_ = nullptr;
    int rank_ = 0;
};

}  // namespace detail

/// A view of the extents of a tensor, one for each dimension. The list must outlive the view. Passing a temporary array
/// or container, or a list of integers other than std::int64_t, does not compile; inplace_view accepts both, because it
/// stores its extents.
class shape_view : public detail::int64_list {
   public:
    /// Constructs a view of rank 0.
    constexpr shape_view() = default;
    /// Constructs a view from an address and a rank.
    ///
    /// \param extents  array of `rank` extents; may be null for rank 0
    /// \param rank     number of extents
    constexpr shape_view(std::int64_t const* extents FERRY_LIFETIME_BOUND, int rank) noexcept
        : int64_list{extents, rank} {}
    /// Constructs a view of an array.
    ///
    /// \param extents  array; must outlive the view
    template <std::size_t N>
    constexpr shape_view(std::int64_t const (&extents FERRY_LIFETIME_BOUND)[N]) noexcept
        : int64_list{extents, static_cast<int>(N)} {}
    /// Constructs a view of the elements of a container.
    ///
    /// \param extents  container of extents; must outlive the view
    template <detail::integer_list Range>
        requires(!detail::viewable_when_temporary<Range>)
    constexpr shape_view(Range const& extents FERRY_LIFETIME_BOUND) noexcept
        : int64_list{extents.data(), static_cast<int>(extents.size())} {}
    /// Constructs a view of the elements that another view references.
    ///
    /// \param extents  view of extents, such as std::span; its elements must outlive the view
    template <detail::borrowed_list List>
        requires(!std::derived_from<List, detail::int64_list>)
    constexpr shape_view(List extents) noexcept : int64_list{extents.data(), static_cast<int>(extents.size())} {}

    // clang-format off
    template <std::size_t N>
    shape_view(std::int64_t const (&&)[N]) FERRY_DELETED("the view refers to a list of extents, and this list is temporary: use ferry::inplace_view<N>, which stores the list, or keep the list in an object that outlives the view");
    template <std::integral... Int>  // {2, 3}, and {0, 3}, which would otherwise convert to a null pointer and a rank
        requires(sizeof...(Int) > 0)
    shape_view(Int...) FERRY_DELETED("the view refers to a list of extents, and this list is temporary: use ferry::inplace_view<N>, which stores the list, or keep the list in an object that outlives the view");
    template <detail::integer_list Range>
        requires(!std::is_lvalue_reference_v<Range> && !detail::viewable_when_temporary<std::remove_cv_t<Range>>)
    shape_view(Range&&) FERRY_DELETED("the view refers to a list of extents, and this list is temporary: use ferry::inplace_view<N>, which stores the list, or keep the list in an object that outlives the view");
    template <std::integral Int, std::size_t N>
        requires(!std::same_as<Int, std::int64_t>)
    shape_view(Int const (&)[N]) FERRY_DELETED("the view refers to a list of std::int64_t, and these extents have another type: use ferry::inplace_view<N>, which copies the list, or store a ferry::inplace_dims<N>");
    template <detail::foreign_list List>
    shape_view(List const&) FERRY_DELETED("the view refers to a list of std::int64_t, and these extents have another type: use ferry::inplace_view<N>, which copies the list, or store a ferry::inplace_dims<N>");
    // clang-format on

    /// Returns whether the ranks and all extents are equal.
    friend constexpr bool operator==(shape_view a, shape_view b) noexcept { return a.has_values_of(b); }
};

/// A view of the strides of a tensor, in elements. The list must outlive the view. Passing a temporary array or
/// container, or a list of integers other than std::int64_t, does not compile; inplace_view accepts both, because it
/// stores its strides.
class strides_view : public detail::int64_list {
   public:
    /// Constructs a view without a list: compact row-major strides (R24).
    constexpr strides_view() = default;
    /// Constructs a view from an address and a rank.
    ///
    /// \param strides  array of `rank` strides; null means compact row-major
    /// \param rank     number of strides
    constexpr strides_view(std::int64_t const* strides FERRY_LIFETIME_BOUND, int rank) noexcept
        : int64_list{strides, rank} {}
    /// Constructs a view of an array.
    ///
    /// \param strides  array; must outlive the view
    template <std::size_t N>
    constexpr strides_view(std::int64_t const (&strides FERRY_LIFETIME_BOUND)[N]) noexcept
        : int64_list{strides, static_cast<int>(N)} {}
    /// Constructs a view of the elements of a container.
    ///
    /// \param strides  container of strides; must outlive the view
    template <detail::integer_list Range>
        requires(!detail::viewable_when_temporary<Range>)
    constexpr strides_view(Range const& strides FERRY_LIFETIME_BOUND) noexcept
        : int64_list{strides.data(), static_cast<int>(strides.size())} {}
    /// Constructs a view of the elements that another view references.
    ///
    /// \param strides  view of strides, such as std::span; its elements must outlive the view
    template <detail::borrowed_list List>
        requires(!std::derived_from<List, detail::int64_list>)
    constexpr strides_view(List strides) noexcept : int64_list{strides.data(), static_cast<int>(strides.size())} {}

    // clang-format off
    template <std::size_t N>
    strides_view(std::int64_t const (&&)[N]) FERRY_DELETED("the view refers to a list of strides, and this list is temporary: use ferry::inplace_view<N>, which stores the list, or keep the list in an object that outlives the view");
    template <std::integral... Int>  // {2, 3}, and {0, 3}, which would otherwise convert to a null pointer and a rank
        requires(sizeof...(Int) > 0)
    strides_view(Int...) FERRY_DELETED("the view refers to a list of strides, and this list is temporary: use ferry::inplace_view<N>, which stores the list, or keep the list in an object that outlives the view");
    template <detail::integer_list Range>
        requires(!std::is_lvalue_reference_v<Range> && !detail::viewable_when_temporary<std::remove_cv_t<Range>>)
    strides_view(Range&&) FERRY_DELETED("the view refers to a list of strides, and this list is temporary: use ferry::inplace_view<N>, which stores the list, or keep the list in an object that outlives the view");
    template <std::integral Int, std::size_t N>
        requires(!std::same_as<Int, std::int64_t>)
    strides_view(Int const (&)[N]) FERRY_DELETED("the view refers to a list of std::int64_t, and these strides have another type: use ferry::inplace_view<N>, which copies the list, or store a ferry::inplace_dims<N>");
    template <detail::foreign_list List>
    strides_view(List const&) FERRY_DELETED("the view refers to a list of std::int64_t, and these strides have another type: use ferry::inplace_view<N>, which copies the list, or store a ferry::inplace_dims<N>");
    // clang-format on

    /// Returns whether the ranks are equal, and either both views are implicit or all strides are equal. Does not
    /// compute implicit strides; `==` of tensor_view does.
    friend constexpr bool operator==(strides_view a, strides_view b) noexcept { return a.has_values_of(b); }

    /// Returns whether there is no list of strides, which means that the elements are compact row-major (R24).
    [[nodiscard]] constexpr bool is_implicit() const noexcept { return data_ == nullptr; }
};

namespace detail {

/// Returns false for a rank above 0 with null extents (R25). Does not check the extents.
[[nodiscard]] constexpr bool has_extents(shape_view shape) noexcept {
    return shape.data() != nullptr || shape.rank() <= 0;
}

}  // namespace detail

/// The `Rank` of a view whose rank is known only at run time.
inline constexpr int dynamic_rank = -1;

/// Computes the number of elements.
///
/// \param shape  extents
/// \param out    number of elements; 1 for rank 0; 0 on failure
/// \return       false when the rank or an extent is negative, the extents are null and the rank is not 0 (R25), or the
///               number does not fit in std::int64_t (R32)
[[nodiscard]] constexpr bool element_count(shape_view shape, std::int64_t& out) noexcept {
    std::int64_t count = 1, signs = shape.rank();
    bool fits = detail::has_extents(shape), empty = false;
    for (auto const extent : shape) {
        signs |= extent;
        empty = empty || extent == 0;
        fits = detail::checked_multiply(count, extent, count) && fits;
    }
    bool const counted = signs >= 0 && (fits || empty);  // a shape whose product overflows may still be empty
    out = counted && !empty ? count : 0;
    return counted;
}

namespace detail {

/// Returns the compact row-major stride of the next outer dimension. An extent of 0 counts as 1, as in NumPy and
/// PyTorch. Returns 0 on overflow, which is possible only for empty tensors.
[[nodiscard]] constexpr std::int64_t compact_step(std::int64_t step, std::int64_t extent) noexcept {
    return checked_multiply(step, extent > 0 ? extent : 1, step) ? step : 0;
}

}  // namespace detail

/// Computes the compact row-major strides of a shape.
///
/// \param shape  extents
/// \param out    array of at least `shape.rank()` values
constexpr void fill_compact_strides(shape_view shape, std::int64_t* out) noexcept {
    std::int64_t step = 1;
    for (int i = shape.rank(); i-- > 0;) {
        out[i] = step;
        step = detail::compact_step(step, shape[i]);
    }
}

/// Converts strides in bytes, as used by NumPy and the buffer protocol, to strides in elements.
///
/// \param bytes       strides in bytes
/// \param item_bytes  size of an element in bytes
/// \param out         array of at least `bytes.rank()` values; may be the array of `bytes`
/// \return            false when a stride is not a multiple of the element size, which DLPack cannot express (R30), or
///                    when the element size is not positive and the rank is not 0; `out` is then unspecified
[[nodiscard]] constexpr bool to_element_strides(strides_view bytes, std::int64_t item_bytes,
                                                std::int64_t* out) noexcept {
    if (item_bytes <= 0) return bytes.rank() == 0;
    for (int i = 0; i < bytes.rank(); ++i) {
        if (bytes[i] % item_bytes != 0) return false;
        out[i] = bytes[i] / item_bytes;
    }
    return true;
}

}  // namespace FERRY_NAMESPACE
