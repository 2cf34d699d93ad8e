// ferry: adapters for the standard library. Nested std::array is exported directly; std::vector, std::span and
// std::mdspan are exported as ferry::shaped.
#pragma once

#include <ferry/adapters/mdspan.hpp>
#include <ferry/adapters/shaped.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>  // adapted

namespace FERRY_NAMESPACE {
namespace detail {

/// Element type and extents of nested arrays.
template <class T>
struct nested {
    using element = T;
    static constexpr int rank = 0;
    static constexpr void write(std::int64_t*) noexcept {}
};
template <class T, std::size_t N>
struct nested<std::array<T, N>> {
    using element = typename nested<T>::element;
    static constexpr int rank = nested<T>::rank + 1;
    static constexpr void write(std::int64_t* out) noexcept {
        *out = static_cast<std::int64_t>(N);
        nested<T>::write(out + 1);
    }
};
template <class Array>
struct static_extents {
    std::int64_t values[nested<Array>::rank];
    constexpr static_extents() noexcept : values{} { nested<Array>::write(values); }
};
template <class Array>
inline constexpr static_extents<Array> extents_of{};

template <class Container>
struct flat_layout {
    static constexpr int max_rank = 8;
    static constexpr bool is_flat = true;
    static int describe(Container const& c, std::int64_t* extents, std::int64_t* strides) noexcept {
        extents[0] = static_cast<std::int64_t>(c.size());
        strides[0] = 1;
        return 1;
    }
    static data_type dtype(Container const&) noexcept { return dtype_of<typename Container::value_type>; }
};

}  // namespace detail

/// std::array and nested std::array: exported directly, because the type contains the extents. An rvalue is moved into
/// the tensor, elements included; a const array is exported read-only (R11).
template <class T, std::size_t N>
    requires element<typename detail::nested<T>::element>
struct array_traits<std::array<T, N>> {
    using array = std::array<T, N>;
    using scalar = typename detail::nested<T>::element;
    /// Returns a view of the elements.
    ///
    /// \param a  array
    /// \return   view; valid while `a` exists
    static tensor_view view(array& a) {
        return {reinterpret_cast<scalar*>(a.data()), detail::extents_of<array>.values};
    }
    /// Returns a read-only view of the elements.
    ///
    /// \param a  array
    /// \return   view; valid while `a` exists
    static tensor_view view(array const& a) {
        return {reinterpret_cast<scalar const*>(a.data()), detail::extents_of<array>.values};
    }
};

/// std::vector: `ferry::shaped{std::move(v)}` or `ferry::shaped{std::move(v), {2, 3}}` owns the vector; export it by
/// move. std::vector<bool> is excluded, because its elements are packed bits.
template <element T, class Allocator>
    requires(!std::same_as<T, bool>)
struct shaped_traits<std::vector<T, Allocator>> : detail::flat_layout<std::vector<T, Allocator>> {
    static constexpr bool is_handle = false;
    /// Returns the address of the first element.
    ///
    /// \param v  vector
    /// \return   address; may be null for an empty vector
    static T* data(std::vector<T, Allocator>& v) noexcept { return v.data(); }
    /// Returns the address of the first element.
    ///
    /// \param v  vector
    /// \return   address; may be null for an empty vector
    static T const* data(std::vector<T, Allocator> const& v) noexcept { return v.data(); }
};

/// std::span: `ferry::shaped{std::span{v}, {2, 3}}` references the elements, which must outlive every tensor that
/// shares them. An rvalue is never shared; it is copied if the request permits a copy, and refused otherwise
/// (D13). A span of const elements is exported read-only (R11).
template <class T, std::size_t N>
    requires element<std::remove_cv_t<T>>
struct shaped_traits<std::span<T, N>> : detail::flat_layout<std::span<T, N>> {
    static constexpr bool is_handle = true, owns = false;
    /// Returns the address of the first element.
    ///
    /// \param s  span
    /// \return   address; may be null for an empty span
    static T* data(std::span<T, N> const& s) noexcept { return s.data(); }
};

}  // namespace FERRY_NAMESPACE
