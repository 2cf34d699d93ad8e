// The main of GPU tests that run on the fake: afterwards nothing may be left but what ferry keeps for each thread.
#include <fake_cuda/fake.hpp>
#include <gpu/calls.hpp>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

int main(int argc, char** argv) {
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
