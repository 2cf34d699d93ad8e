// ferry: conformance checks of array_traits<T>::view.
#pragma once

#include <ferry/conformance/detail/same.hpp>
#include <ferry/conformance/detail/samples.hpp>
#include <ferry/exchange/producer.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::conformance::detail {

inline outcome check_shape(tensor_view const& v, sample const& s) {
    message what;
    if (v.shape() == s.shape) return kept(what << s);
    what << s << " has a view of shape ";
    return broken(detail::operator<<(what, v.shape()));
}

inline outcome check_dtype(tensor_view const& v, sample const& s) {
    message what;
    if (!is_valid(v.dtype()))
        return broken(what << s << " has the type " << v.dtype() << ", which DLPack does not define");
    if (s.type != nullptr && v.dtype() != *s.type) return broken(what << s << " has a view of type " << v.dtype());
    return kept(what << v.dtype());
}

inline outcome check_layout(tensor_view const& v, sample const& s) {
    message what;
    if (!v.strides().is_implicit() && v.strides().rank() != v.rank())
        return broken(what << s << " has " << v.strides().rank() << " strides for " << v.rank() << " dimensions");
    if (v.data() == nullptr && !v.is_empty()) return broken(what << s << " has a null data pointer");
    if (!(v.shape() == s.shape)) return not_applicable(what << s << " has a view of another shape");
    return can_read(v) ? kept(what << s) : unread(v, what << s);
}

inline outcome check_first_element(tensor_view const& v, sample const& s) {
    auto const layout = check_layout(v, s);
    if (layout.found == verdict::broken) return not_applicable(layout.evidence);  // reported by check_strides
    if (layout.found != verdict::kept) return layout;
    if (is_number(v.dtype(), static_cast<std::byte const*>(v.data()), 1)) return layout;
    return broken(message{} << s << ": data does not point to the first element, which is 1: add the offset to it");
}

inline outcome check_strides(tensor_view const& v, sample const& s) {
    auto const layout = check_layout(v, s);
    if (layout.found != verdict::kept) return layout;
    auto const wrong = first_mismatch(v);
    if (wrong <= 0) return layout;  // 0: reported by check_first_element
    message what;
    what << s << ": element " << wrong << " (row-major) is not " << wrong + 1 << " with strides (";
    for (int i = 0; i < v.rank(); ++i) what << (i != 0 ? ", " : "") << v.stride(i);
    return broken(what << "): give one stride for each dimension, in elements, not bytes");
}

/// Checks that a view stays valid after another call to view, for the same array or for another one.
template <class Array, class Make>
outcome check_stability(Array& array, sample const& s, Make& make) {
    tensor_view const& before = view_of(array);
    std::int64_t shape[4] = {}, other[4] = {};
    for (int i = 0; i < before.rank() && i < 4; ++i) {
        shape[i] = before.extent(i);
        other[i] = before.extent(i) + 1;
    }
    box<Array> second;
    sample const larger{.shape = {other, s.shape.rank()}, .type = s.type};
    if (construct(second, make, larger)) static_cast<void>(view_of(*second));
    message what;
    for (int i = 0; i < before.rank() && i < 4; ++i)
        if (before.extent(i) != shape[i])
            return broken(
                what
                << s
                << ": its extents changed when another array was viewed: store them in the array, not in static data");
    return same_tensor(view_of(array), before, what << s << ", viewed twice");
}

/// Checks that the view of a const array is READ_ONLY, unless copies of the array are handles to the same memory.
template <class Array>
outcome check_const(Array& array, sample const& s) {
    message what;
    if constexpr (!viewable<Array const>) {
        return not_applicable("the adapter has no view(T const&)");
    } else {
        tensor_view const& v = view_of(std::as_const(array));
        if (v.is_read_only() || v.is_empty()) return kept(what << s);
        if constexpr (std::copy_constructible<Array>) {
            Array const copy(array);
            if (view_of(copy).data() == v.data())
                return kept("copies of the array are handles: const does not apply to the elements");
        }
        return broken(
            what << s << ", const, has a writable view: construct tensor_view from T const*, or set flags::read_only");
    }
}

template <class Array, class Make, class Recorder>
void check_metadata(Make& make, Recorder& record) {
    auto const views = [&](auto check) {
        return [&make, check] {
            return for_each_array<Array>(make, filled, [&](auto& a, sample const& s) { return check(view_of(*a), s); });
        };
    };
    record("R32", "shape", views(check_shape));
    record("R17", "dtype", views(check_dtype));
    record("R34", "device", views([](tensor_view const& v, sample const& s) {
               if (is_known(v.device().type) && v.device().id >= 0) return kept(ferry::name(v.device().type));
               return broken(message{} << s << " is on a device that DLPack does not define");
           }));
    record("R14", "unknown_flags", views([](tensor_view const& v, sample const& s) {
               if (v.flags() == known(v.flags())) return kept();
               return broken(message{} << s << " has flags that DLPack does not define: set those bits to 0");
           }));
    record("R31", "alignment", views([](tensor_view const& v, sample const& s) {
               bool const is_complex = v.dtype().code == type_code::complex || v.dtype().code == type_code::bcomplex;
               auto const item = static_cast<std::uintptr_t>(v.dtype().bits / (is_complex ? 16 : 8));
               if (!is_readable(v.dtype()) || reinterpret_cast<std::uintptr_t>(v.data()) % item == 0) return kept();
               return broken(message{} << s << ": the first element is not aligned for its type");
           }));
    record("R23", "first_element", views(check_first_element));
    record("R24", "strides", views(check_strides));
    record("R7", "stable_view", [&] {
        return for_each_array<Array>(make, filled,
                                     [&](auto& a, sample const& s) { return check_stability(*a, s, make); });
    });
    record("R11", "const", [&] {
        return for_each_array<Array>(make, filled, [](auto& a, sample const& s) { return check_const(*a, s); });
    });
    record("R11", "read_only", [&] {
        return for_each_read_only<Array>(make, [](auto& a, sample const& s) {
            return view_of(*a).is_read_only() ? kept() : broken(message{} << s << " has a view without READ_ONLY");
        });
    });
    record("R26", "empty", [&] {
        return for_each_array<Array>(make, empty, [](auto& a, sample const& s) {
            tensor_view const& v = view_of(*a);
            auto const shape = check_shape(v, s);
            return shape.found == verdict::broken || v.is_empty() ? shape : broken(message{} << s << " is not empty");
        });
    });
    record("R25", "zero_d", [&] {
        return for_each_array<Array>(make, scalar, [](auto& a, sample const& s) {
            tensor_view const& v = view_of(*a);
            return combine(check_shape(v, s), v.rank() == 0 ? check_first_element(v, s) : kept());
        });
    });
}

}  // namespace FERRY_NAMESPACE::conformance::detail
