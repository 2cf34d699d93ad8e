// A program that calls functions of an engine, which return and throw.
#include <ferry/ferry.hpp>
#include <ferry/wire/binary.hpp>

#include <cstdio>

int main() {
    ferry::wire::descriptor d;
    d.root = ferry::wire::node{.format = "n", .length = 3};
    auto const bytes = ferry::wire::to_bytes(d);
    if (ferry::wire::from_bytes(bytes) != d) return 1;
    try {
        static_cast<void>(ferry::wire::from_bytes({}));
    } catch (ferry::error const& e) {
        std::printf("ferry %d.%d.%d\n", FERRY_VERSION_MAJOR, FERRY_VERSION_MINOR, FERRY_VERSION_PATCH);
        return e.code() == ferry::errc::bad_descriptor ? 0 : 2;
    }
    return 3;
}
