// ferry: the access and the layout that the type of a view states.
#pragma once

#include <ferry/config.hpp>

#include <cstdint>

namespace ferry::inline v0 {

/// The code that may access the elements (D4).
enum class access_from : std::uint8_t {
    host,   ///< host code
    device  ///< device code only; host code can obtain their address
};

/// The strides that a view supports.
enum class layout : std::uint8_t {
    strided,    ///< any strides
    contiguous  ///< compact row-major
};

}  // namespace ferry::inline v0
