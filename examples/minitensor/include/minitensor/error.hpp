// minitensor: the errors it throws.
#pragma once

#include <stdexcept>

namespace mt {

/// Memory that is not available or not accessible: a device that does not exist, a tensor that the host
/// cannot read, or elements of an unsupported type. An invalid argument is std::invalid_argument, a value
/// out of range std::overflow_error, an index out of bounds std::out_of_range, and no memory std::bad_alloc.
class buffer_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace mt
