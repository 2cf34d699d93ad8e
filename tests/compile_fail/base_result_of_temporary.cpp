// expect: temporary (whose address is used as value of|bound to) local
// expect: 'value'
// expect: 'moved'
// expect: 'address'
// expect: 'error'
// The value and the error are stored in the result. Clang only.
#include <ferry/base/result.hpp>

#if defined(__clang__)
#pragma clang diagnostic error "-Wdangling"
#elif defined(FERRY_COMPILE_FAIL)
#error "temporary bound to local: GCC does not warn of 'value', 'moved', 'address' and 'error'"
#endif

ferry::result<int> make();

int sum() {
#ifdef FERRY_COMPILE_FAIL
    int const& value = make().value();
    int const& moved = *make();
    int const* const address = make().operator->();
    ferry::error const& error = make().error();
#else
    int const value = make().value();
    int const moved = *make();
    auto const r = make();
    int const* const address = r.operator->();
    ferry::error const error = make().error();
#endif
    return value + moved + *address + static_cast<int>(error.code());
}
