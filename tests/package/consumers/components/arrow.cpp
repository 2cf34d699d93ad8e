#include <ferry/arrow.hpp>

bool arrow_works();
bool arrow_works() {
    ferry::column const c = ferry::make_column({.format = "n", .length = 3}, nullptr);
    return c.length() == 3;
}
