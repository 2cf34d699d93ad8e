// ferry: the template arguments of a typed view that state its access and its layout.
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
