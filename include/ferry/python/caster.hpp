// ferry: what the casters of all binding libraries have in common: which types they take, and how a
// signature names them.
#pragma once

#include <ferry/python/load.hpp>
#include <ferry/python/result.hpp>

#include <ferry/exchange/array_traits.hpp>
#include <ferry/tensor/typed_view.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace ferry::inline v0::python {

/// An adapted array that has no caster of its own kind: imported by adopt, exported by view.
template <class T>
concept cast_array = !std::same_as<T, managed_tensor> && !std::same_as<T, detail::shared_tensor> &&
                     std::is_class_v<T> && (adopting<T> || viewable<T>) && casts_array<T>;

namespace detail {

/// "tensor[float32, 2, writable]": element type, rank (... for any), and what is asked for beyond
/// reading on the host.
template <class T>
inline constexpr message label{"tensor"};
template <class T, int Rank, access Access, layout Layout>
inline constexpr message label<typed_view<T, Rank, Access, Layout>> = [] {
    message text{"tensor["};
    text << dtype_of<T> << ", ";
    if (Rank == dynamic_rank) text << "...";
    else text << Rank;
    if (!std::is_const_v<T>) text << ", writable";
    if (Layout == layout::contiguous) text << ", contiguous";
    if (Access == access::device) text << ", on_device";
    text << "]";
    return text;
}();

[[nodiscard]] consteval std::size_t length(message const& m) {
    std::size_t n = 0;
    while (m.c_str()[n] != '\0') ++n;
    return n;
}

/// The label of T as an array of its own length, which is what the binding libraries make
/// signatures of.
template <class T>
struct signature {
    char text[length(label<T>) + 1]{};
    constexpr signature() noexcept {
        for (std::size_t i = 0; i + 1 < sizeof text; ++i) text[i] = label<T>.c_str()[i];
    }
};
template <class T>
inline constexpr signature<T> signature_of{};

/// A view would be left behind by what holds it: it ends with the call, and a container may not.
template <class T>
inline constexpr bool keeps_its_tensor = true;
template <class T, int Rank, access Access, layout Layout>
inline constexpr bool keeps_its_tensor<typed_view<T, Rank, Access, Layout>> = false;
template <class T, class... Options>
inline constexpr bool keeps_its_tensor<argument<T, Options...>> = keeps_its_tensor<T>;

/// Calls `use` with every object in a module, and in its classes, that says that it belongs to that
/// module.
template <class Use>
void for_each_function(PyObject* module, Use use) {
    reference const home{PyObject_GetAttrString(module, "__name__")};
    if (!home) throw error_is_set{};
    auto const visit = [&](auto const& again, PyObject* owner) -> void {
        reference const dictionary{PyObject_GetAttrString(owner, "__dict__")};
        reference const values{dictionary ? PyMapping_Values(dictionary.get()) : nullptr};
        if (!values) throw error_is_set{};
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values.get()); ++i) {
            PyObject* const member = PyList_GET_ITEM(values.get(), i);
            reference const lives_in{PyObject_GetAttrString(member, "__module__")};
            if (!lives_in) PyErr_Clear();
            bool const ours = lives_in && PyObject_RichCompareBool(lives_in.get(), home.get(), Py_EQ) == 1;
            if (PyType_Check(member) != 0) {
                if (ours && member != owner) again(again, member);
            } else if (ours || PyInstanceMethod_Check(member) != 0 || Py_IS_TYPE(member, &PyStaticMethod_Type)) {
                use(member);
            }
        }
    };
    visit(visit, module);
}

}  // namespace detail
}  // namespace ferry::inline v0::python
