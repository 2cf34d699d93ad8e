// The same for columns, the Arrow interfaces and descriptors; main calls `column_is_equal`.
#include <ferry/arrow.hpp>
#include <ferry/column.hpp>
#include <ferry/wire/binary.hpp>
#include <ferry/wire/json.hpp>

bool column_is_equal();

bool column_is_equal() {
    ferry::decimal<128> const prices[2] = {};
    ferry::column_buffer const buffers[] = {{}, {prices, sizeof prices}};
    auto const column = ferry::make_column({.format = "d:38,2", .length = 2, .buffers = buffers}, nullptr);
    ArrowArray array;
    ArrowSchema schema;
    ferry::to_arrow(column.slice(1, 1).to(ferry::cpu), &array);
    ferry::to_arrow_schema(column, &schema);
    auto const imported = ferry::from_arrow(&array, &schema);
    bool const is_equal = imported.values<ferry::decimal<128>>()[0] == prices[1] && !prices[1].is_negative();

    ferry::wire::descriptor const described{.root = ferry::wire::node{.format = "i"}};
    return is_equal && ferry::wire::from_bytes(ferry::wire::to_bytes(described)) == described &&
           !ferry::wire::to_json(described).empty();
}
