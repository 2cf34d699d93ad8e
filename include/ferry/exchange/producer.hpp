// ferry: the types that can be exported.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/device.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/detail/adapter.hpp>

#include <source_location>

namespace FERRY_NAMESPACE {

/// A producer with its own export protocol, such as a Python object: `managed_tensor ferry_export(request const&)`
/// returns a tensor, or a result that contains one. The tensor need not satisfy the request, because from_dlpack copies
/// or waits as needed.
template <class P>
concept exporter = requires(P& p, request const& r) {
    requires std::same_as<detail::value_of<decltype(p.ferry_export(r))>, managed_tensor>;
};

namespace detail {

/// A const rvalue, which cannot be moved: the elements of an array would be copied implicitly.
template <class P>
concept const_rvalue = !std::is_lvalue_reference_v<P> && std::is_const_v<std::remove_reference_t<P>>;

}  // namespace detail

/// An argument of from_dlpack: an array, an rvalue managed_tensor, a foreign struct or an exporter. It need not
/// own its elements.
template <class P>
concept producer =
    (viewable<std::remove_reference_t<P>> && !detail::const_rvalue<P>) || exporter<std::remove_reference_t<P>> ||
    std::same_as<P, managed_tensor> || std::same_as<std::remove_cvref_t<P>, DLManagedTensorVersioned*> ||
    std::same_as<std::remove_cvref_t<P>, DLManagedTensor*>;

namespace detail {

/// An array that is a const rvalue.
template <class P>
concept const_array = has_adapter<P> && const_rvalue<P> && !producer<P>;

/// `producer`, or an array whose adapter is invalid; the messages of `is_adapted` state the reason.
template <class P>
concept may_export = producer<P> || (has_adapter<P> && !const_array<P>);

/// An array that to_dlpack exports with a request. Its adapter may be invalid.
template <class Array>
concept exportable = has_adapter<Array> && !has_own_exports<std::remove_cvref_t<Array>> && !const_rvalue<Array>;

/// An lvalue of an array without array_traits<T>::share. The array need not own its elements.
template <class Array>
concept without_share = std::is_lvalue_reference_v<Array> && viewable<std::remove_reference_t<Array>> &&
                        !shareable<std::remove_reference_t<Array>> && !declares_share<std::remove_cvref_t<Array>>;

/// An array whose elements belong to another object, and that cannot be shared.
template <class Array>
concept without_elements =
    non_owning<std::remove_reference_t<Array>> &&
    (without_share<Array> || (!std::is_lvalue_reference_v<Array> && viewable<std::remove_reference_t<Array>>));

/// Type of the function object `describe`.
struct describe_t {
    template <has_traits_view Array>
    [[nodiscard]] constexpr auto operator()(Array& a) const
        -> decltype(array_traits<std::remove_cv_t<Array>>::view(a)) {
        return array_traits<std::remove_cv_t<Array>>::view(a);
    }
    template <has_member_view Array>
    [[nodiscard]] constexpr auto operator()(Array& a) const -> decltype(a.ferry_view()) {
        return a.ferry_view();
    }
};
/// `describe(array)` returns the return value of the adapter: a view, or a result that contains one.
inline constexpr describe_t describe{};

/// Returns the device of an array. `view_device(a)` returns the device of its view.
template <class Array, class ViewDevice>
[[nodiscard]] constexpr device device_in(Array& a, [[maybe_unused]] ViewDevice view_device) {
    using T = std::remove_cv_t<Array>;
    if constexpr (!is_device_sound<T>()) return {};
    else if constexpr (has_device<Array>) return array_traits<T>::device(a);
    else return view_device(a);
}

// clang-format off
/// The deleted calls of functions that read an array.
struct no_array {
    template <is_unknown Other>
    void operator()(Other&&) const FERRY_DELETED("unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()");
    template <class Array>
        requires(has_adapter<Array> && !viewable<std::remove_reference_t<Array>>)
    void operator()(Array&&) const FERRY_DELETED("array_traits<T>::view must take the array by reference and return ferry::tensor_view or ferry::inplace_view<N>: public, static tensor_view view(T&) and view(T const&)");
};
/// The deleted calls of functions that return a view of an array.
struct no_lasting_array : no_array {
    using no_array::operator();
    template <viewable Array>
        requires(!std::is_lvalue_reference_v<Array>)
    void operator()(Array&&) const FERRY_DELETED("the view would outlive the temporary array: store the array in a variable");
};
// clang-format on

}  // namespace detail

/// Type of the function object `view_of`. Without exceptions, adapters that return a result are not supported.
struct view_of_t : detail::no_lasting_array {
    using no_lasting_array::operator();
    /// Returns a view of an array. Exceptions of array_traits<T>::view and `ferry_view` propagate.
    ///
    /// \param a  array; must outlive the view
    /// \return   view of the elements: a tensor_view, or an inplace_view. Bind it to a `tensor_view const&`.
    ///           `try_view_of` returns the view or the error.
    /// \throws error  the error of the result that the adapter returned
    template <viewable Array>
        requires(FERRY_HAS_EXCEPTIONS != 0 ||
                 !detail::is_result<decltype(detail::describe(std::declval<Array&>()))>)
    [[nodiscard]] constexpr auto operator()(Array& a) const -> detail::value_of<decltype(detail::describe(a))> {
        if constexpr (detail::is_result<decltype(detail::describe(a))>) return detail::describe(a).value();
        else return detail::describe(a);
    }
#if !FERRY_HAS_EXCEPTIONS
    // clang-format off
    template <viewable Array>
        requires detail::is_result<decltype(detail::describe(std::declval<Array&>()))>
    void operator()(Array&) const FERRY_DELETED("the adapter returns a result, which cannot throw its error without exceptions: call try_view_of");
    // clang-format on
#endif
};
/// `view_of(array)` returns a non-owning view of an array: calls array_traits<T>::view, or else its member
/// `ferry_view`.
inline constexpr view_of_t view_of{};

/// Type of the function object `try_view_of`.
struct try_view_of_t : detail::no_lasting_array {
    using no_lasting_array::operator();
    /// Returns a view of an array, or the error; see `view_of`.
    ///
    /// \param a      array; must outlive the view
    /// \return       view of the elements, or the error
    template <viewable Array>
    [[nodiscard]] auto operator()(Array& a, std::source_location where = std::source_location::current()) const
        -> result<detail::value_of<decltype(detail::describe(a))>> {
        return detail::attempt<detail::value_of<decltype(detail::describe(a))>>(
            "ferry::view_of", where, [&](auto) { return detail::describe(a); });
    }
};
/// `try_view_of(array)` returns what `view_of` returns, or the error that it throws.
inline constexpr try_view_of_t try_view_of{};

/// Type of the function object `device_of`.
struct device_of_t : detail::no_array {
    using no_array::operator();
    /// Returns the device of an array. Exceptions of the adapter propagate.
    ///
    /// \param a  array
    /// \return   device; `try_device_of` returns the device or the error
    /// \throws error  the error of the result that the adapter returned
    template <class Array>
        requires viewable<std::remove_reference_t<Array>>
    [[nodiscard]] constexpr device operator()(Array&& a) const {
        return detail::device_in(a, [](auto& array) { return view_of(array).device(); });
    }
};
/// `device_of(array)` returns the device of an array: calls array_traits<T>::device or, if it is absent, `view_of`
/// (R37).
inline constexpr device_of_t device_of{};

/// Type of the function object `try_device_of`.
struct try_device_of_t : detail::no_array {
    using no_array::operator();
    /// Returns the device of an array, or the error; see `device_of`.
    ///
    /// \param a      array
    /// \return       device, or the error
    template <class Array>
        requires viewable<std::remove_reference_t<Array>>
    [[nodiscard]] result<device> operator()(Array&& a,
                                            std::source_location where = std::source_location::current()) const {
        return detail::attempt<device>("ferry::device_of", where, [&](detail::reporter r) {
            return detail::device_in(a, [&](auto& array) {
                auto const described = detail::describe(array);
                return detail::check_result(described, r) ? detail::unwrapped(described).device() : device{};
            });
        });
    }
};
/// `try_device_of(array)` returns what `device_of` returns, or the error that it throws.
inline constexpr try_device_of_t try_device_of{};

}  // namespace FERRY_NAMESPACE
