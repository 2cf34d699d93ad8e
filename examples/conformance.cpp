// Tests an adapter with the conformance kit.
#include <ferry/conformance.hpp>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

// [adapter]
struct column_major {
    std::vector<float> values;
    std::int64_t extents[2], strides[2];
};

template <>
struct ferry::array_traits<column_major> {
    static tensor_view view(column_major& m) { return {m.values.data(), m.extents, m.strides}; }
    static tensor_view view(column_major const& m) { return {m.values.data(), m.extents, m.strides}; }
};
// [/adapter]

// [make]
// Returns an array with elements 1, 2, 3, … in row-major order of their indices. Throws for unsupported shapes.
column_major make(ferry::shape_view shape) {
    if (shape.rank() != 2) throw std::invalid_argument{"expected two dimensions"};
    auto const rows = shape[0], columns = shape[1];
    column_major m{std::vector<float>(static_cast<std::size_t>(rows * columns)), {rows, columns}, {1, rows}};
    for (std::int64_t i = 0; i < rows * columns; ++i)
        m.values[static_cast<std::size_t>(i / columns + i % columns * rows)] = static_cast<float>(i + 1);
    return m;
}
// [/make]

// [run]
int main() {
    auto const sum = ferry::conformance::run<column_major>(make, [](ferry::conformance::finding const& f) {
        std::printf("%-4s %-22s %-15s %s\n", f.rule, f.name, name(f.outcome), f.evidence);
    });
    std::printf("%d kept, %d broken, %d not applicable, %d not examined\n", sum.kept, sum.broken, sum.not_applicable,
                sum.not_examined);
    return sum ? 0 : 1;
}
// [/run]
