// ferry: the types that can be exported.
#pragma once

#include <ferry/exchange/array_traits.hpp>
#include <ferry/exchange/detail/adapter.hpp>
#include <ferry/fwd.hpp>

#include <concepts>
#include <type_traits>

namespace ferry::inline v0 {

/// A producer with its own export protocol, such as a Python object: `managed_tensor ferry_export(request const&)`
/// returns a tensor. Not required: that the tensor satisfies the request; from_dlpack copies or waits as needed.
template <class P>
concept exporter = requires(P& p, request const& r) {
    { p.ferry_export(r) } -> std::same_as<managed_tensor>;
};

/// An argument of from_dlpack: an array, an rvalue managed_tensor, a foreign struct or an exporter. Not required:
/// ownership.
template <class P>
concept producer = viewable<std::remove_reference_t<P>> || exporter<std::remove_reference_t<P>> ||
                   (std::same_as<std::remove_cvref_t<P>, managed_tensor> && !std::is_reference_v<P>) ||
                   std::same_as<std::remove_cvref_t<P>, DLManagedTensorVersioned*> ||
                   std::same_as<std::remove_cvref_t<P>, DLManagedTensor*>;

namespace detail {

/// `producer`, or an array whose adapter is invalid; the messages of `is_adapted` state the reason.
template <class P>
concept may_export = producer<P> || has_adapter<P>;

}  // namespace detail

/// Type of the function object `view_of`.
struct view_of_t {
    /// Returns a view of an array. Exceptions of array_traits<T>::view and `ferry_view` propagate.
    ///
    /// \param a  array; must outlive the view
    /// \return   view of the elements: a tensor_view, or an inplace_view. Bind it to a `tensor_view const&`.
    template <has_traits_view Array>
    [[nodiscard]] constexpr auto operator()(Array& a) const
        -> decltype(array_traits<std::remove_cv_t<Array>>::view(a)) {
        return array_traits<std::remove_cv_t<Array>>::view(a);
    }
    template <has_member_view Array>
    [[nodiscard]] constexpr auto operator()(Array& a) const -> decltype(a.ferry_view()) {
        return a.ferry_view();
    }
    template <viewable Array>
        requires(!std::is_lvalue_reference_v<Array>)
    void operator()(Array&&) const FERRY_DELETED("the view would outlive the temporary array: store the array in a variable");
};
/// `view_of(array)` returns a non-owning view of an array: calls array_traits<T>::view, or else its member
/// `ferry_view`.
inline constexpr view_of_t view_of{};

}  // namespace ferry::inline v0
