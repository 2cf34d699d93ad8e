// Columns: created from buffers, read with nulls, exported to Arrow and imported again.
#include <ferry/arrow.hpp>
#include <ferry/arrow/concat.hpp>
#include <ferry/column.hpp>
#include <ferry/column/as.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// [make]
// The buffers of a table with two columns. `orders` owns the buffers.
struct orders {
    std::vector<double> prices{9.5, 0.0, 12.25};
    unsigned char has_price[1] = {0b101};  // one bit for each item, lowest bit first; 1: valid
    std::vector<std::int32_t> ends{0, 5, 9, 14};
    std::vector<char> text{'a', 'p', 'p', 'l', 'e', 'p', 'e', 'a', 'r', 'g', 'r', 'a', 'p', 'e'};
};

ferry::column make_orders() {
    auto const o = std::make_shared<orders const>();
    auto const bytes = [](auto const& v) { return ferry::column_buffer{v.data(), static_cast<std::int64_t>(v.size() * sizeof v[0])}; };
    ferry::column_buffer const prices[] = {{o->has_price, 1}, bytes(o->prices)};
    ferry::column_buffer const fruits[] = {{}, bytes(o->ends), bytes(o->text)};  // empty validity: no nulls
    ferry::column_buffer const rows[] = {{}};
    ferry::column_parts const children[] = {{.format = "g", .name = "price", .length = 3, .buffers = prices},
                                            {.format = "u", .name = "fruit", .length = 3, .buffers = fruits}};
    return ferry::make_column({.format = "+s", .name = "orders", .length = 3, .buffers = rows, .children = children}, o);
}
// [/make]

// [receive]
// Imports from any library with Arrow's C data interface: nothing is copied, and the structure is checked.
double total(ArrowArray* array, ArrowSchema* schema) {
    ferry::column const c = ferry::from_arrow(array, schema);
    ferry::validate(c, ferry::validation::full);  // also checks the values: for untrusted producers
    double sum = 0;
    for (auto const price : c.child("price").values<double>())
        if (price) sum += *price;
    return sum;
}
// [/receive]

}  // namespace

int main() {
    ferry::column const table = make_orders();
    // [export]
    ArrowArray array;
    ArrowSchema schema;
    ferry::to_arrow(table, &array);
    ferry::to_arrow_schema(table, &schema);
    // [/export]
    double const sum = total(&array, &schema);  // releases both

    // [read]
    ferry::column const last = table.slice(1, 2);  // the same buffers
    auto const fruits = last.field("fruit").values<std::string_view>();
    auto const prices = last.field("price").values<double>();
    for (std::int64_t i = 0; i < fruits.size(); ++i)
        if (prices[i]) std::printf("%.*s: %.2f\n", static_cast<int>(fruits[i]->size()), fruits[i]->data(), *prices[i]);
        else std::printf("%.*s: no price\n", static_cast<int>(fruits[i]->size()), fruits[i]->data());
    // [/read]

    // [chunks]
    ArrowArrayStream stream;
    ferry::to_arrow(ferry::chunked{{table.slice(0, 2), table.slice(2, 1)}, table}, &stream);  // without a copy
    ferry::chunked const batches = ferry::from_arrow(&stream);
    for (ferry::column const& batch : batches.chunks()) std::printf("%d rows\n", static_cast<int>(batch.length()));
    ferry::column const joined = ferry::concat(batches);  // copies, if one column is needed
    // [/chunks]

    // [as]
    ferry::column const views = ferry::as(table.field("fruit"), "vu");  // string_view; shares the text
    // [/as]
    return joined.length() == 3 && sum == 21.75 && last.field("price").null_count() == 1 && !prices[0] && *fruits[1] == "grape" &&
                   views.length() == 3
               ? 0
               : 1;
}
