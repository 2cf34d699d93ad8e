// minitensor: errors.
#pragma once

#include <stdexcept>

namespace mt {

/// Thrown if memory is not available or not accessible (no such device, or a tensor that the host cannot
/// read), or if minitensor does not support an element type. Other errors are std::invalid_argument for a bad
/// argument, std::overflow_error for a value that does not fit, std::out_of_range for an index that is out of
/// bounds, and std::bad_alloc if memory is exhausted.
class buffer_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace mt
