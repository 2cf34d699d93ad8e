// expect: the value type of a result must be an object type other than an array or ferry::error
#include <ferry/base/result.hpp>

bool fails(ferry::error const& e) {
#ifdef FERRY_COMPILE_FAIL
    return !ferry::result<ferry::error>{e};
#else
    return !ferry::result<int>{e};
#endif
}
