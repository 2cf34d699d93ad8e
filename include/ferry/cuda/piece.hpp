// ferry: one of many scattered pieces that are copied at once. Needs no CUDA header.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>

namespace ferry::inline v0::cuda {

/// One piece of many that `copy_batch` or `pack_pieces` copies. Within one call no destination may overlap another one,
/// or any source.
struct piece {
    void* dst;
    void const* src;
    std::size_t bytes;
};

}  // namespace ferry::inline v0::cuda
