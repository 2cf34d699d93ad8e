// ferry: the elements of the kit's arrays: 1, 2, 3, … in row-major order.
#pragma once

#include <ferry/base/dtype.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ferry::inline v0::conformance::detail {

/// Calls f(T{}) with the C++ type of the elements, or of their real part. Returns false for types that the kit cannot
/// read.
template <class F>
bool with_element(data_type t, F f) {
    if (t.lanes != 1) return false;
    int const bits = t.code == type_code::complex ? t.bits / 2 : t.bits;
    switch (t.code) {
        case type_code::bool_: f(std::uint8_t{}); return true;
        case type_code::int_:
            if (bits == 8) f(std::int8_t{});
            else if (bits == 16) f(std::int16_t{});
            else if (bits == 32) f(std::int32_t{});
            else if (bits == 64) f(std::int64_t{});
            else return false;
            return true;
        case type_code::uint:
            if (bits == 8) f(std::uint8_t{});
            else if (bits == 16) f(std::uint16_t{});
            else if (bits == 32) f(std::uint32_t{});
            else if (bits == 64) f(std::uint64_t{});
            else return false;
            return true;
        case type_code::float_:
        case type_code::complex:
            if (bits == 32) f(float{});
            else if (bits == 64) f(double{});
            else return false;
            return true;
        default: return false;
    }
}

[[nodiscard]] inline bool is_readable(data_type t) {
    return with_element(t, [](auto) {});
}
/// Reads an element by memcpy, because an adapter under test may return a misaligned pointer.
[[nodiscard]] inline double read_number(data_type t, std::byte const* from) {
    double number = 0;
    with_element(t, [&](auto element) {
        std::memcpy(&element, from, sizeof element);
        number = static_cast<double>(element);
    });
    return number;
}
inline void write_number(data_type t, std::byte* to, std::int64_t number) {
    with_element(t, [&](auto element) {
        element = static_cast<decltype(element)>(t.code == type_code::bool_ ? 1 : number);
        std::memcpy(to, &element, sizeof element);
    });
}

/// Calls f(ordinal, byte offset) for every element in row-major order, until it returns false.
template <class F>
void for_each_element(tensor_view const& v, F f) {
    std::int64_t const bytes = bits_per_element(v.dtype(), v.is_padded()) / 8;
    for (std::int64_t ordinal = 0, count = v.size(); ordinal < count; ++ordinal) {
        std::int64_t offset = 0, rest = ordinal;
        for (int i = v.rank(); i-- > 0; rest /= v.extent(i)) offset += rest % v.extent(i) * v.stride(i);
        if (!f(ordinal, offset * bytes)) return;
    }
}

/// Finds the first element whose value is not the expected one.
///
/// \param v         view
/// \param elements  address of the first element; null for v.data()
/// \param period    number of elements after which the expected values start from 1 again (broadcast dimensions)
/// \return          row-major index of the element; -1 when all have the expected value
[[nodiscard]] inline std::int64_t first_mismatch(tensor_view const& v, void const* elements = nullptr,
                                              std::int64_t period = INT64_MAX) {
    auto const* const first = static_cast<std::byte const*>(elements != nullptr ? elements : v.data());
    std::int64_t wrong = -1;
    for_each_element(v, [&](std::int64_t ordinal, std::int64_t offset) {
        auto const wanted = v.dtype().code == type_code::bool_ ? 1 : ordinal % period + 1;
        if (read_number(v.dtype(), first + offset) == static_cast<double>(wanted)) return true;
        wrong = ordinal;
        return false;
    });
    return wrong;
}

}  // namespace ferry::inline v0::conformance::detail
