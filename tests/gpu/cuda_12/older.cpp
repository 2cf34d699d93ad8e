// What the GPU tests need and a CUDA Toolkit 12.6 without nvcc does not have.
#include <gpu/compiled.hpp>
#include <support/toolkit.hpp>

#include <ferry/cuda/pack.hpp>

#if CUDART_VERSION < 12080
extern "C" cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t s, int* id) {
    return ferry::cuda::detail::get_stream_device(s, id);
}
#endif

namespace support {

ferry::cuda::pack_function compiled_pack() noexcept { return ferry::cuda::pack; }

}  // namespace support
