// Reads a column without exceptions. CMakeLists.txt compiles this program with -fno-exceptions -fno-rtti.
#include <ferry/column.hpp>

#include <cstdint>
#include <cstdio>

// [sum]
ferry::result<double> sum_of(ferry::column const& c) {
    auto const values = c.try_values<double>();
    if (!values) return values.error();
    double sum = 0;
    for (std::int64_t i = 0; i < values->size(); ++i) {
        auto const item = values->try_at(i);
        if (!item) return item.error();
        sum += item->value_or(0);  // a null counts as 0
    }
    return sum;
}
// [/sum]

int main() {
    static double const prices[] = {1.5, 0, 2.5};
    static unsigned char const validity[] = {0b101};
    ferry::column_buffer const buffers[] = {{validity, 1}, {prices, sizeof prices}};
    auto const c = ferry::try_make_column({.format = "g", .name = "price", .length = 3, .buffers = buffers}, nullptr);
    if (!c) return 1;
    auto const sum = sum_of(*c);
    if (!sum) return 1;
    std::printf("sum: %g\n", *sum);
    return *sum == 4 ? 0 : 1;
}
