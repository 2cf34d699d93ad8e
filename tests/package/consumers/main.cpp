// What every consumer builds: a tensor goes out and comes back, and the version is printed.
#include <ferry/adapters/std.hpp>
#include <ferry/ferry.hpp>

#include <cstdio>

int main() {
    auto out = ferry::to_dlpack(std::array<float, 3>{1, 2, 3});
    auto in = ferry::from_dlpack(out.release());
    auto const values = in.as<float const, 1>();
    std::printf("ferry %d.%d.%d\n", FERRY_VERSION_MAJOR, FERRY_VERSION_MINOR, FERRY_VERSION_PATCH);
    return values(2) == 3 ? 0 : 1;
}
