// ferry::to_host as a library for peers.py, so that it takes its turns in the process of those that it is measured
// against.
#include <ferry/cuda.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>

#include <cstdint>
#include <cstdio>

namespace cuda = ferry::cuda;

/// Owner of memory that outlives its tensors.
struct no_owner {};

/// A copier that is never destroyed: the process ends with it.
extern "C" void* bench_copier(int lanes) {
    cuda::copier_options options;
    options.lanes = lanes;
    options.pack = cuda::pack;
    return new cuda::copier{options};
}

/// Brings floats of the first GPU, ready on its legacy default stream, to fresh memory of the host, which stays until
/// bench_let_go gets it. Null when it failed.
extern "C" void* bench_to_host(void* copier, void* data, int rank, std::int64_t const* shape,
                               std::int64_t const* strides) {
    try {
        ferry::tensor_view const view{data, ferry::dtype_of<float>, ferry::shape_view{shape, rank},
                                      ferry::strides_view{strides, rank}, ferry::device{ferry::device_type::cuda}};
        return new ferry::managed_tensor{ferry::to_host(ferry::make_managed(no_owner{}, view),
                                                        *static_cast<cuda::copier*>(copier),
                                                        ferry::stream_token::cuda_legacy_default())};
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return nullptr;
    }
}

extern "C" void bench_let_go(void* tensor) { delete static_cast<ferry::managed_tensor*>(tensor); }
