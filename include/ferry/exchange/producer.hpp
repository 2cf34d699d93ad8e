// ferry: what can be exported.
#pragma once

#include <ferry/exchange/array_traits.hpp>
#include <ferry/exchange/detail/adapter.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <type_traits>

namespace ferry::inline v0 {

/// A protocol of its own behind which a tensor is asked for by request, a Python object for instance:
/// `managed_tensor ferry_export(request const&)`. Not required: that it honours the request; from_dlpack makes up for
/// it.
template <class P>
concept exporter = requires(P& p, request const& r) {
    { p.ferry_export(r) } -> std::same_as<managed_tensor>;
};

/// Whatever from_dlpack takes: an array, a tensor, a foreign struct, an exporter.
template <class P>
concept producer = viewable<std::remove_reference_t<P>> || exporter<std::remove_reference_t<P>> ||
                   std::same_as<std::remove_cvref_t<P>, managed_tensor> ||
                   std::same_as<std::remove_cvref_t<P>, DLManagedTensorVersioned*> ||
                   std::same_as<std::remove_cvref_t<P>, DLManagedTensor*>;

/// The tensor of an array: array_traits<T>::view, else its member `ferry_view`. Borrows.
struct view_of_t {
    template <has_traits_view Array>
    [[nodiscard]] constexpr tensor_view operator()(Array& a) const {
        return array_traits<std::remove_cv_t<Array>>::view(a);
    }
    template <has_member_view Array>
    [[nodiscard]] constexpr tensor_view operator()(Array& a) const {
        return a.ferry_view();
    }
    template <viewable Array>
        requires(!std::is_lvalue_reference_v<Array>)
    void operator()(Array&&) const FERRY_DELETED("the view would outlive the temporary: keep the array in a variable");
};
/// `view_of(array)`: the tensor that an array describes, borrowed, by its array_traits or its member `ferry_view`.
inline constexpr view_of_t view_of{};

}  // namespace ferry::inline v0
