// ferry: calls a function with a typed view whose element type matches the data type of a tensor.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/tensor/as.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/view.hpp>

#include <source_location>
#include <type_traits>

namespace ferry::inline v0 {
namespace detail {

template <class... T>
[[noreturn]] FERRY_COLD void fail_visit(data_type type, std::source_location where) {
    message text{"dtype is "};
    text << type << ", expected ";
    char const* separator = "";
    ((text << separator << dtype_of<T>, separator = " or "), ...);
    fail(errc::dtype, "ferry::visit", text << ": convert the tensor, or add the type to those of visit", where);
}

template <int Rank, class First, class... Rest, class F>
constexpr decltype(auto) visit_first(tensor_view const& v, F& f, std::source_location where) {
    using result = std::invoke_result_t<F&, typed_view<First, Rank>>;
    static_assert((std::is_same_v<result, std::invoke_result_t<F&, typed_view<Rest, Rank>>> && ...),
                  "ferry: the function of ferry::visit must return the same type for every element type: state it, as "
                  "in [](auto const& v) -> double { … }");
    if constexpr (sizeof...(Rest) > 0)
        if (v.dtype() != dtype_of<First>) return visit_first<Rank, Rest...>(v, f, where);
    return static_cast<result>(f(as<First, Rank>(v, where)));
}

}  // namespace detail

/// Calls a function with a typed view whose element type matches the data type of the tensor, selected from a list:
/// `visit<float const, double const>(v, [](auto const& x) { … })`.
///
/// As with `as`, which performs the other checks, an element type T const accepts read-only tensors. The function is
/// compiled for each type.
///
/// \tparam Rank  rank of the typed view: `visit<2, float const, double const>(v, f)`; without it, dynamic_rank
/// \tparam T     element types
/// \param v      view; its data, and for a dynamic rank its extents and strides, must outlive the typed view
/// \param f      function that takes a `typed_view<T, Rank>` and has the same return type for every T
/// \param where  source location for errors
/// \return       result of the function
/// \throws error  errc::dtype for a type that is not in the list, with the list in the message; errors of `as`, such as
///                errc::read_only; exceptions from the function propagate
template <int Rank, element... T, class F>
    requires(sizeof...(T) > 0)
constexpr decltype(auto) visit(tensor_view const& v, F&& f,
                               std::source_location where = std::source_location::current()) {
    if (((v.dtype() != dtype_of<T>)&&...)) detail::fail_visit<T...>(v.dtype(), where);  // mutant: visit_dtype
    return detail::visit_first<Rank, T...>(v, f, where);
}
template <element... T, class F>
    requires(sizeof...(T) > 0)
constexpr decltype(auto) visit(tensor_view const& v, F&& f,
                               std::source_location where = std::source_location::current()) {
    return visit<dynamic_rank, T...>(v, f, where);
}

}  // namespace ferry::inline v0
