// The operations of a back end.
#pragma once

#include <cstddef>

namespace support {

enum class verb : std::size_t { allocate, copy, order, wait, mark };

}  // namespace support
