// A shared object that opens another one and catches its exceptions, built with -fvisibility=hidden.
#include <ferry/base/error.hpp>

#include <dlfcn.h>

extern "C" __attribute__((visibility("default"))) int catch_error(char const* path) {
    void* const other = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (other == nullptr) return 2;
    auto const call = reinterpret_cast<void (*)()>(::dlsym(other, "throw_error"));
    if (call == nullptr) return 2;
    try {
        call();
    } catch (ferry::error const& e) {
        return e.code() == ferry::errc::shape ? 0 : 1;
    } catch (...) {
        return 1;
    }
    return 1;
}
