// Runs the inputs in a folder through a target of tests/fuzz, where there is no libFuzzer.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

// What targets call of the fuzzer and of the sanitizers: nothing is mutated, and allocations are not counted.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t*, std::size_t size, std::size_t) { return size; }
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(void const volatile*, std::size_t), void (*)(void const volatile*)) { return 0; }

int main(int, char** argv) {
    int inputs = 0;
    for (auto const& entry : std::filesystem::directory_iterator{argv[1]}) {
        std::ifstream file{entry.path(), std::ios::binary};
        std::vector<char> const read{std::istreambuf_iterator<char>{file}, {}};
        std::vector<std::uint8_t> const input{read.begin(), read.end()};
        LLVMFuzzerTestOneInput(input.data(), input.size());
        ++inputs;
    }
    std::printf("%d inputs\n", inputs);
    return inputs == 0;
}
