// The main of GPU tests: prints the CUDA device; without one it reports that and skips everything.
#include <ferry/cuda/api.hpp>
#include <gpu/importer.hpp>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// The exit status that CTest counts as skipped.
constexpr int skipped = 77;

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], "--importer") == 0) return support::serve_as_importer(std::atoi(argv[2]));
    if (argc >= 5 && std::strcmp(argv[1], "--look") == 0)
        return support::inspect_memory(argv[2], argv[3], argv[4], argc > 5 ? argv[5] : nullptr);
    int devices = 0, driver = 0, runtime = 0;
    cudaError_t const found = cudaGetDeviceCount(&devices);
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    if (found != cudaSuccess || devices == 0) {
        std::printf("SKIPPED: there is no CUDA device here (%s); no GPU test ran\n", cudaGetErrorString(found));
        return skipped;
    }
    for (int i = 0; i < devices; ++i) {
        cudaDeviceProp facts{};
        if (cudaGetDeviceProperties(&facts, i) != cudaSuccess) continue;
        std::printf("cuda:%d %s, compute %d.%d, %.1f GiB\n", i, facts.name, facts.major, facts.minor,
                    static_cast<double>(facts.totalGlobalMem) / (1 << 30));
    }
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    char const* const streams = "per-thread";
#else
    char const* const streams = "legacy";
#endif
    std::printf("driver %d, runtime %d, default stream: %s\n", driver, runtime, streams);
    std::fflush(stdout);
    doctest::Context context{argc, argv};
    int const result = context.run();
    if (context.shouldExit()) return result;
    cudaError_t const left = cudaDeviceSynchronize();  // what failed late
    if (left != cudaSuccess)
        std::printf("FAILED: an error came to light after the tests: %s\n", cudaGetErrorString(left));
    return left != cudaSuccess ? 1 : result;
}
