// ferry: one of many scattered copies. Needs no CUDA header.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>

namespace ferry::inline v0::cuda {

/// One copy of many that `copy_batch` or `pack_pieces` executes. In one call no destination may overlap another
/// destination or a source.
struct piece {
    void* dst;          ///< destination
    void const* src;    ///< source
    std::size_t bytes;  ///< size
};

}  // namespace ferry::inline v0::cuda
