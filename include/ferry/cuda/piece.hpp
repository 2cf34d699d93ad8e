// ferry: one of many scattered copies. Needs no CUDA header.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>

namespace FERRY_NAMESPACE::cuda {

/// One of the copies that a call to `copy_batch` or `pack_pieces` executes. In a call, no destination may overlap
/// another destination or a source.
struct piece {
    void* dst;          ///< destination
    void const* src;    ///< source
    std::size_t bytes;  ///< size
};

}  // namespace FERRY_NAMESPACE::cuda
