// ferry: the parts that the type casters of all binding libraries share: accepted types and their signatures.
#pragma once

#include <ferry/python/load.hpp>
#include <ferry/python/result.hpp>

#include <ferry/exchange/array_traits.hpp>
#include <ferry/tensor/typed_view.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace FERRY_NAMESPACE::python {

/// A class that the generic type caster accepts: array_traits adapts it, with adopt for arguments and view for results,
/// and casts_array<T> is true.
///
/// \tparam T  type of the argument or result
template <class T>
concept cast_array = !std::same_as<T, managed_tensor> && !std::same_as<T, detail::shared_tensor> &&
                     std::is_class_v<T> && (adopting<T> || viewable<T>) && casts_array<T>;

namespace detail {

/// The type that a signature shows, such as "tensor[float32, 2, writable]": the element type, the rank (... for any
/// rank), and requirements other than read access on the host.
template <class T>
inline constexpr inplace_text label{"tensor"};
template <class T, int Rank, access_from Access, layout Layout>
inline constexpr inplace_text label<typed_view<T, Rank, Access, Layout>> = [] {
    inplace_text text{"tensor["};
    text << dtype_of<T> << ", ";
    if (Rank == dynamic_rank) text << "...";
    else text << Rank;
    if (!std::is_const_v<T>) text << ", writable";
    if (Layout == layout::contiguous) text << ", contiguous";
    if (Access == access_from::device) text << ", on_device";
    text << "]";
    return text;
}();

[[nodiscard]] consteval std::size_t length(inplace_text const& m) {
    std::size_t n = 0;
    while (m.c_str()[n] != '\0') ++n;
    return n;
}

/// The label of T as an array of exactly its length, as const_name of the binding libraries requires.
template <class T>
struct signature {
    char text[length(label<T>) + 1]{};
    constexpr signature() noexcept {
        for (std::size_t i = 0; i + 1 < sizeof text; ++i) text[i] = label<T>.c_str()[i];
    }
};
template <class T>
inline constexpr signature<T> signature_of{};

/// Whether a T owns its tensor. A typed_view is valid only during the call, so it cannot be an element of a container.
template <class T>
inline constexpr bool owns_tensor = true;
template <class T, int Rank, access_from Access, layout Layout>
inline constexpr bool owns_tensor<typed_view<T, Rank, Access, Layout>> = false;
template <class T, class... Options>
inline constexpr bool owns_tensor<argument<T, Options...>> = owns_tensor<T>;

}  // namespace detail
}  // namespace FERRY_NAMESPACE::python
