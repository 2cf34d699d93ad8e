// minitensor: the errors it throws.
#pragma once

#include <stdexcept>

namespace mt {

/// The memory asked for cannot be had or reached: no such device, a tensor that the host cannot
/// read, or elements of a type that minitensor does not have. A bad argument is std::invalid_argument, a value that does not fit std::overflow_error, an
/// index that is out of bounds std::out_of_range, and memory that ran out std::bad_alloc.
class buffer_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace mt
