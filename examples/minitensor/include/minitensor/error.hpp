// minitensor: exceptions.
#pragma once

#include <stdexcept>

namespace mt {

/// Thrown for memory that is not available or not accessible: a device that does not exist, a tensor that the host
/// cannot read, or elements of an unsupported type. Invalid arguments throw std::invalid_argument, values out of
/// range std::overflow_error, indices out of bounds std::out_of_range, and failed allocations std::bad_alloc.
class buffer_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace mt
