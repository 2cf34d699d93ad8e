// The kernels of the program, for bench.cpp, which g++ compiles: the other way for ferry's kernels to come along.
#include <ferry/cuda/pack.cuh>

void pack_of_the_program(ferry::copy_plan const& plan, void* dst, void const* src, ferry::cuda::stream_ref on) {
    ferry::cuda::pack_compiled(plan, dst, src, on);
}
