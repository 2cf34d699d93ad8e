// expect: the value of a result is an object, but not an array or a ferry::error
#include <ferry/base/result.hpp>

bool fails(ferry::error const& e) {
#ifdef FERRY_COMPILE_FAIL
    return !ferry::result<ferry::error>{e};
#else
    return !ferry::result<int>{e};
#endif
}
