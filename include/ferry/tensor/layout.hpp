// ferry: the access and the layout of views.
#pragma once

#include <ferry/config.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE {

/// The code that may access the elements (D4).
enum class access_from : std::uint8_t {
    host,   ///< host code
    device  ///< device code only; host code can obtain the address of the elements
};

/// The strides that a view supports.
enum class layout : std::uint8_t {
    strided,    ///< any strides
    contiguous  ///< compact row-major
};

/// A requirement on the order of the elements in memory, known at run time.
enum class contiguity : std::uint8_t {
    any,           ///< no requirement; any strides
    row_major,     ///< compact, with the last dimension contiguous
    column_major,  ///< compact, with the first dimension contiguous
    either         ///< compact, row-major or column-major
};

}  // namespace FERRY_NAMESPACE
