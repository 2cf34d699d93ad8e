// ferry: the elements of a typed view.
#pragma once

#include <ferry/tensor/detail/view_layout.hpp>
#include <ferry/tensor/view.hpp>

namespace FERRY_NAMESPACE::detail {

template <class View, class F>
struct element_loop;

/// Constructor tag: `as` has checked the view.
struct checked_by_as {
    explicit checked_by_as() = default;
};

/// The distance between packed elements in bits; greater than their width if they are padded (R13).
struct packed_step {
    std::int64_t bits;
};
/// The distance between elements that are not packed. Not stored, because it is the size of an element.
struct whole_step {
    constexpr explicit whole_step(std::int64_t) noexcept {}
};

/// The address and the layout of elements of type T and, for packed elements, the distance between them.
template <class T, int Rank, bool HasStrides>
struct view_elements {
    using value_type = std::remove_cv_t<T>;
    using reference = std::conditional_t<packed_type<T>, value_type, T&>;
    static constexpr int static_rank = Rank;
    static constexpr bool has_strides = HasStrides;

    T* data = nullptr;
    view_layout<Rank, HasStrides> layout;
    FERRY_NO_UNIQUE_ADDRESS std::conditional_t<packed_type<T>, packed_step, whole_step> step{
        bits_per_element(dtype_of<T>)};

    constexpr view_elements() = default;
    /// \param v  view, which must have been checked
    explicit view_elements(tensor_view const& v) noexcept
        : data{static_cast<T*>(untyped_data(v))}, layout{v}, step{bits_per_element(v.dtype(), v.is_padded())} {}
    template <class U, int R, bool S>
    constexpr explicit view_elements(view_elements<U, R, S> const& e) noexcept
        : data{e.data}, layout{e}, step{e.step} {}

    [[nodiscard]] constexpr int rank() const noexcept { return layout.rank(); }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return layout.shape(); }
    [[nodiscard]] constexpr strides_view strides() const noexcept { return layout.strides(); }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return shape()[i]; }
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return stride_of(shape(), strides(), i); }
    /// \param index  array, or index_list
    [[nodiscard]] constexpr std::int64_t offset(auto const& index) const noexcept { return layout.offset(index); }
    [[nodiscard]] constexpr std::int64_t size() const noexcept {
        std::uint64_t count = 1;  // `as` has checked it; if an extent is 0, the product of the others may wrap (R32)
        for (int i = 0; i < rank(); ++i) count *= static_cast<std::uint64_t>(extent(i));
        return static_cast<std::int64_t>(count);
    }
    [[nodiscard]] constexpr bool is_padded() const noexcept {
        if constexpr (packed_type<T>) return step.bits != bits_per_element(dtype_of<T>);
        else return false;
    }

    /// Returns the element at an offset in elements.
    [[nodiscard]] constexpr reference operator[](std::int64_t offset) const noexcept {
        if constexpr (packed_type<T>) {
            // The next byte is read only if the element extends into it, because it may lie beyond the data (R19).
            auto const* bytes = reinterpret_cast<unsigned char const*>(data);
            std::int64_t const bit = offset * step.bits, byte = bit >> 3;
            unsigned const shift = static_cast<unsigned>(bit & 7), width = dtype_of<T>.bits;
            unsigned value = unsigned{bytes[byte]} >> shift;
            if (shift + width > 8) value |= unsigned{bytes[byte + 1]} << (8 - shift);
            return value_type{static_cast<std::uint8_t>(value & ((1u << width) - 1))};
        } else {
            return data[offset];
        }
    }
    /// Moves `data` by an offset in elements. Fails for a packed element that does not begin on a byte boundary.
    [[nodiscard]] constexpr bool advance(std::int64_t offset, reporter r) {
        if constexpr (packed_type<T>) {
            if (offset * step.bits % 8 != 0)
                return report(r, errc::alignment,
                              message{"element "} << offset
                                                  << " does not begin on a byte boundary (R19): select another first "
                                                     "element, or request padded elements (R13)");
            data += offset * step.bits / 8;
        } else {
            data += offset;
        }
        return true;
    }
};

/// A view of U with rank R and layout L converts to a view of T with Rank and Layout. The two types may be the same.
template <class U, class T, int R, int Rank, layout L, layout Layout>
concept view_convertible = (std::is_same_v<U, T> || std::is_same_v<U const, T>)&&(R == Rank || Rank == dynamic_rank) &&
    (L == Layout || Layout == layout::strided);

}  // namespace FERRY_NAMESPACE::detail
