#include <ferry/version.hpp>

#include <cstdio>

bool arrow_works();
bool ipc_works();

int main() {
    std::printf("ferry %d.%d.%d\n", FERRY_VERSION_MAJOR, FERRY_VERSION_MINOR, FERRY_VERSION_PATCH);
    return arrow_works() && ipc_works() ? 0 : 1;
}
