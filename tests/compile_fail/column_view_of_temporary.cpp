// expect: the view would outlive the column: keep the column in a variable
#include <ferry/column.hpp>

ferry::column make() { return {}; }

ferry::column_view view() {
#ifdef FERRY_COMPILE_FAIL
    return make().view();
#else
    static ferry::column const kept = make();
    return kept.view();
#endif
}
