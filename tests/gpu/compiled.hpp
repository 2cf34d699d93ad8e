// The pack kernels that nvcc compiled into the program, for tests that g++ compiles.
#pragma once

#include <ferry/cuda/copier.hpp>

namespace support {

/// `ferry::cuda::pack_compiled`.
[[nodiscard]] ferry::cuda::pack_function compiled_pack() noexcept;

}  // namespace support
