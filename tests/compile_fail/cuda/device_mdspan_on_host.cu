// expect: calling a (constexpr )?__device__ function.* from a __host__ function
// An mdspan of a device view is for kernels; host code that reads it does not compile.
#include <ferry/cuda/mdspan.cuh>
#include <ferry/tensor/typed_view.hpp>

using view = ferry::typed_view<float, 1, ferry::access_from::device, ferry::layout::contiguous>;

#ifdef FERRY_COMPILE_FAIL
float first(view const& v) {
    auto const m = ferry::to_mdspan<ferry::mdspan_family::cuda_device>(v);
    return m.accessor().access(m.data_handle(), 0);
}
#else
template <class M>
__global__ void read(M m, float* out) {
    *out = m(0);
}
void first(view const& v, float* out) {
    read<<<1, 1, 0, cudaStreamLegacy>>>(ferry::to_mdspan<ferry::mdspan_family::cuda_device>(v), out);
}
#endif
