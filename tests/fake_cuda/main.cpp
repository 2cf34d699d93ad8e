// The main of GPU tests on the fake: at the end only what ferry keeps for each thread may be allocated.
#include <fake_cuda/fake.hpp>
#include <gpu/calls.hpp>
#include <gpu/importer.hpp>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], "--importer") == 0) return support::serve_as_importer(std::atoi(argv[2]));
    if (argc >= 5 && std::strcmp(argv[1], "--look") == 0)
        return support::inspect_memory(argv[2], argv[3], argv[4], argc > 5 ? argv[5] : nullptr);
    doctest::Context context{argc, argv};
    fake::begin();
    int const result = context.run();
    fake::end();
    auto const left = fake::left();
    if (left.blocks > static_cast<std::size_t>(support::calls::leaves()) || left.pools != 0) {
        std::printf("FAILED: %zu blocks and %zu pools are left\n", left.blocks, left.pools);
        return 1;
    }
    return result;
}
