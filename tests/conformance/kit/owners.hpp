// Arrays that own their elements: copies are deep, and elements may be stored in the array.
#pragma once

#include <ferry/base/shape.hpp>
#include <ferry/exchange/array_traits.hpp>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace owners {

enum class fault { none, const_writable, address_kept, extents_shared };

/// A two-dimensional array of doubles; up to four elements are stored in the object.
template <fault Fault>
struct matrix {
    double inside[4] = {};
    std::vector<double> outside;
    std::int64_t extents[2] = {};
    double* kept = nullptr;

    matrix(std::int64_t rows, std::int64_t columns) : extents{rows, columns} {
        auto const count = static_cast<std::size_t>(rows * columns);
        if (count > 4) outside.resize(count);
        kept = data();
        for (std::size_t i = 0; i < count; ++i) kept[i] = static_cast<double>(i + 1);
    }
    [[nodiscard]] double* data() { return outside.empty() ? inside : outside.data(); }
    [[nodiscard]] double const* data() const { return outside.empty() ? inside : outside.data(); }
};

struct maker {
    template <class Matrix>
    struct of {
        Matrix operator()(ferry::shape_view s) const {
            if (s.rank() != 2) throw std::invalid_argument{"two dimensions"};
            return {s[0], s[1]};
        }
    };
};

/// An array of three floats with a member ferry_view.
struct point {
    float values[3] = {1, 2, 3};
    static constexpr std::int64_t extents[1] = {3};
    ferry::tensor_view ferry_view() { return {values, extents}; }
    ferry::tensor_view ferry_view() const { return {values, extents}; }
};
struct point_maker {
    point operator()(ferry::shape_view s) const {
        if (!(s == shape())) throw std::invalid_argument{"three numbers"};
        return {};
    }
    ferry::shape_view shape() const { return point::extents; }
};

/// Three floats, in the object or elsewhere.
struct reference {
    point own{};
    float* data = nullptr;
    ferry::tensor_view ferry_view() { return {data != nullptr ? data : own.values, point::extents}; }
    ferry::tensor_view ferry_view() const { return {data != nullptr ? data : own.values, point::extents}; }
};
struct reference_maker {
    point elsewhere{};
    reference operator()(ferry::shape_view s) {
        if (!(s == shape())) throw std::invalid_argument{"three numbers"};
        return {{}, elsewhere.values};
    }
    ferry::shape_view shape() const { return point::extents; }
};

}  // namespace owners

template <>
struct ferry::array_traits<owners::reference> {
    static bool owns(owners::reference const& a) { return a.data == nullptr; }
};

template <owners::fault Fault>
struct ferry::array_traits<owners::matrix<Fault>> {
    using matrix = owners::matrix<Fault>;
    static tensor_view view(matrix& m) {
        static std::int64_t shared[2];
        shared[0] = m.extents[0], shared[1] = m.extents[1];
        auto* const data = Fault == owners::fault::address_kept ? m.kept : m.data();
        if (Fault == owners::fault::extents_shared) return {data, shared};
        return {data, m.extents};
    }
    static tensor_view view(matrix const& m) {
        if (Fault == owners::fault::const_writable) return view(const_cast<matrix&>(m));
        return {m.data(), m.extents};
    }
};
