// expect: column_value
#include <ferry/column.hpp>

auto read(ferry::column const& c) {
#ifdef FERRY_COMPILE_FAIL
    return c.values<char const*>();
#else
    return c.values<std::string_view>();
#endif
}
