#include <ferry/cuda.hpp>

// Works without a device; the runtime must be there.
int main() {
    int version = 0;
    ferry::cuda::check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
    return version >= 12060 ? 0 : 1;
}
