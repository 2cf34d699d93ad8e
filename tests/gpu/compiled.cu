#include <ferry/cuda/pack.cuh>
#include <gpu/compiled.hpp>

namespace support {

ferry::cuda::pack_function compiled_pack() noexcept { return ferry::cuda::pack_compiled; }

}  // namespace support
