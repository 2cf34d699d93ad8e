// A shared object that throws, built with -fvisibility=hidden.
#include <ferry/base/error.hpp>

extern "C" __attribute__((visibility("default"))) void throw_error() {
    throw ferry::error{ferry::errc::shape, "throw_error", "thrown by another shared object"};
}
