// ferry: calls a function with a typed view whose element type matches the data type of a tensor.
#pragma once

#include <ferry/tensor/as.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

template <class... T>
[[nodiscard]] FERRY_COLD bool report_visit(data_type type, reporter r) {
    message text{"dtype is "};
    text << type << ", expected ";
    char const* separator = "";
    ((text << separator << dtype_of<T>, separator = " or "), ...);
    return report(r, errc::dtype, text << ": convert the tensor, or add the type to those of visit");
}

/// Fails unless the data type of a view is one of T..., and the view meets the requirements of that typed view.
template <int Rank, class... T>
[[nodiscard]] inline bool check_visit(tensor_view const& v, reporter r) {
    as_target to{};
    if (!((v.dtype() == dtype_of<T> && (to = target_of<T, Rank>, true)) || ...))
        return report_visit<T...>(v.dtype(), r);
    to.unless_const = "call visit<T const>, or request a copy with copy_policy::always";
    return check_as(v, to, r);
}

/// Calls a function with the typed view of a view that `check_visit` has checked.
template <int Rank, class First, class... Rest, class F>
inline decltype(auto) visit_checked(tensor_view const& v, F& f) {
    using returned = std::invoke_result_t<F&, typed_view<First, Rank>>;
    static_assert((std::is_same_v<returned, std::invoke_result_t<F&, typed_view<Rest, Rank>>> && ...),
                  "ferry: the function passed to ferry::visit must return the same type for every element type: state "
                  "the return type, as in [](auto const& v) -> double { … }");
    if constexpr (sizeof...(Rest) > 0)
        if (v.dtype() != dtype_of<First>) return visit_checked<Rank, Rest...>(v, f);
    return static_cast<returned>(f(typed_view<First, Rank>{checked_by_as{}, v}));
}

}  // namespace detail

/// Calls a function with a typed view whose element type, one of `T...`, matches the data type of the tensor:
/// `visit<float const, double const>(v, [](auto const& x) { … })`.
///
/// Checks the other properties as `as` does, so that read-only tensors require const element types. The function is
/// instantiated for each type.
///
/// \tparam Rank  rank of the typed view: `visit<2, float const, double const>(v, f)`; without it, dynamic_rank
/// \tparam T     element types
/// \param v      view; its data, and for a dynamic rank its extents and strides, must outlive the typed view
/// \param f      function that takes a `typed_view<T, Rank>` and has the same return type for every T
/// \return       result of the function; `try_visit` returns that result or the error. If the function returns a
///               `result`, `try_visit` returns the same type.
/// \throws error  errc::dtype when no element type matches, with the supported types in the message; errors of `as`,
///                such as errc::read_only; exceptions from the function propagate
#if FERRY_HAS_EXCEPTIONS
template <int Rank, element... T, class F>
    requires(sizeof...(T) > 0)
inline decltype(auto) visit(tensor_view const& v, F&& f, std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::check_visit<Rank, T...>(v, {"ferry::visit", where}));
    return detail::visit_checked<Rank, T...>(v, f);
}
template <element... T, class F>
    requires(sizeof...(T) > 0)
inline decltype(auto) visit(tensor_view const& v, F&& f, std::source_location where = std::source_location::current()) {
    return visit<dynamic_rank, T...>(v, f, where);
}
#endif
template <int Rank, element... T, class F>
    requires(sizeof...(T) > 0)
auto try_visit(tensor_view const& v, F&& f, std::source_location where = std::source_location::current()) {
    using returned = decltype(detail::visit_checked<Rank, T...>(v, f));
    using outcome = result<detail::value_of<returned>>;
    detail::record to{"ferry::visit", where};
    if (!detail::check_visit<Rank, T...>(v, to)) return outcome{to.outcome.error()};
    if constexpr (std::is_void_v<returned>) {
        detail::visit_checked<Rank, T...>(v, f);
        return outcome{};
    } else {
        return outcome{detail::visit_checked<Rank, T...>(v, f)};
    }
}
template <element... T, class F>
    requires(sizeof...(T) > 0)
auto try_visit(tensor_view const& v, F&& f, std::source_location where = std::source_location::current()) {
    return try_visit<dynamic_rank, T...>(v, f, where);
}

// clang-format off
FERRY_DELETED_BOTH(visit, try_visit, (tensor_view const&, F&&, std::source_location = {}), "this element type has no data type: specialise ferry::dtype_traits<T>",
    template <int Rank, class... T, class F> requires(!(element<T> && ...)));
FERRY_DELETED_BOTH(visit, try_visit, (tensor_view const&, F&&, std::source_location = {}), "this element type has no data type: specialise ferry::dtype_traits<T>",
    template <class... T, class F> requires(!(element<T> && ...)));
// clang-format on

}  // namespace FERRY_NAMESPACE
