// ferry: the arrays on which the rules are checked.
#pragma once

#include <ferry/conformance/detail/box.hpp>
#include <ferry/conformance/detail/numbers.hpp>
#include <ferry/conformance/finding.hpp>
#include <ferry/conformance/maker.hpp>
#include <ferry/exchange/producer.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::conformance::detail {

struct extents {
    int rank;
    std::int64_t values[4];
    [[nodiscard]] constexpr operator shape_view() const noexcept { return {values, rank}; }
};
inline constexpr extents filled[] = {{1, {5}}, {2, {2, 3}}, {3, {2, 3, 4}}, {2, {1, 4}}, {2, {4, 1}}};
inline constexpr extents empty[] = {{1, {0}}, {2, {2, 0}}, {2, {0, 3}}, {3, {2, 0, 4}}};
inline constexpr extents scalar[] = {{0, {}}};

inline constexpr data_type some_types[] = {
    dtype_of<float>,         dtype_of<std::int32_t>,  dtype_of<std::uint8_t>,        dtype_of<double>,
    {type_code::float_, 16}, {type_code::bfloat, 16}, {type_code::float8_e4m3fn, 8}, {type_code::float8_e5m2, 8}};

/// Size of the memory of one of the kit's own tensors, in bytes.
inline constexpr std::int64_t sample_bytes = 1024;
/// Whether the kit's own tensors can have this type and shape: at most 4 dimensions and `sample_bytes`, no extent of 0.
[[nodiscard]] inline bool fits_sample(data_type type, shape_view shape) {
    if (shape.rank() > 4) return false;
    std::int64_t rest = sample_bytes * 8 / bits_per_element(type);
    for (auto const extent : shape) {
        if (extent < 1) return false;
        rest /= extent;
    }
    return rest > 0;
}

/// Describes an array that the kit requests from the maker.
struct sample {
    shape_view shape;
    data_type const* type = nullptr;  ///< null: the maker selects the type
    bool is_strided = false;
    bool is_read_only = false;
};

inline message& operator<<(message& out, shape_view shape) {
    out << "(";
    for (int i = 0; i < shape.rank(); ++i) out << (i != 0 ? ", " : "") << shape[i];
    return out << ")";
}
inline message& operator<<(message& out, sample const& s) {
    out << "the " << (s.is_strided ? "strided " : "") << (s.is_read_only ? "read-only " : "") << "array of shape ";
    detail::operator<<(out, s.shape);
    if (s.type != nullptr) out << " and type " << *s.type;
    return out;
}
inline message& operator<<(message&& out, sample const& s) { return out << s; }

template <class Array, class Make>
[[nodiscard]] bool construct(box<Array>& into, Make& make, sample const& s) {
    return into.construct([&]() -> Array {
        if constexpr (makes_strided<Make, Array>)
            if (s.is_strided) return make.strided(s.shape);
        if constexpr (makes_read_only<Make, Array>)
            if (s.is_read_only) return make.read_only(s.shape);
        if constexpr (makes_types<Make, Array>) return make(s.shape, s.type != nullptr ? *s.type : some_types[0]);
        else return make(s.shape);
    });
}

/// Makes one array and adds the outcome of `f(box&, sample const&)` to `found`.
template <class Array, class Make, class F>
void check_one(outcome& found, Make& make, sample const& s, F& f) {
    box<Array> made;
    if (found.found != verdict::broken && construct(made, make, s)) add(found, f(made, s));
}

/// Calls `f` for every array that the maker supports: each shape with each of `some_types`, and strided arrays.
template <class Array, std::size_t N, class Make, class F>
[[nodiscard]] outcome for_each_array(Make& make, extents const (&shapes)[N], F f) {
    outcome found;
    auto const each = [&](shape_view shape) {
        if constexpr (makes_types<Make, Array>)
            for (auto const& type : some_types) check_one<Array>(found, make, {.shape = shape, .type = &type}, f);
        else check_one<Array>(found, make, {.shape = shape}, f);
        if constexpr (makes_strided<Make, Array>)
            check_one<Array>(found, make, {.shape = shape, .is_strided = true}, f);
    };
    for (auto const& shape : shapes) each(shape);
    if constexpr (has_shape<Make>) {
        shape_view const own = make.shape();
        if (&shapes[0] == &filled[0]) each(own);
    }
    if (found.found == verdict::not_applicable && found.evidence.c_str()[0] == '\0')
        found.evidence << "the maker supports none of the shapes";
    return found;
}

/// Type and shape of an array that the maker returned.
struct produced {
    bool is_any = false;
    data_type type{};
    extents shape{};
};
/// Returns the type and shape of the first array whose type and shape the kit's own tensors can have. Returns none when
/// the view throws, which the checks of the view report.
template <class Array, class Make>
[[nodiscard]] produced first_produced(Make& make) {
    produced first;
    try {
        static_cast<void>(for_each_array<Array>(make, filled, [&](box<Array>& a, sample const&) {
            tensor_view const v = view_of(*a);
            if (first.is_any || !is_valid(v.dtype()) || !fits_sample(v.dtype(), v.shape())) return kept();
            first = {true, v.dtype(), {v.rank(), {}}};
            for (int i = 0; i < v.rank(); ++i) first.shape.values[i] = v.extent(i);
            return kept();
        }));
    } catch (...) {
    }
    return first;
}

/// Calls `f` for every read-only array that the maker supports.
template <class Array, class Make, class F>
[[nodiscard]] outcome for_each_read_only(Make& make, F f) {
    outcome found;
    if constexpr (makes_read_only<Make, Array>)
        for (auto const& shape : filled) check_one<Array>(found, make, {.shape = shape, .is_read_only = true}, f);
    else found.evidence << "the maker has no function read_only()";
    return found;
}

}  // namespace FERRY_NAMESPACE::conformance::detail
