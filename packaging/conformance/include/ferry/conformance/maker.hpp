// ferry: the concepts of the callable that makes arrays for the conformance kit.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/shape.hpp>

#include <concepts>

namespace FERRY_NAMESPACE::conformance {

/// `Array operator()(shape_view)`: returns an array of that shape whose elements, in row-major order, are 1, 2, 3, …
/// For bool, all elements are true. For complex types, these numbers are the real parts. If a floating-point type
/// cannot represent a number, the element has an adjacent value. Opaque handles, vectors, and elements of type
/// float8_e3m4 or float128 or of fewer than 8 bits may have any value, because the kit does not read them. May throw
/// any exception for a shape that the library does not support; the kit then skips the shape. No particular rank or
/// layout is required.
template <class Make, class Array>
concept makes_shapes = requires(Make& make, shape_view shape) {
    { make(shape) } -> std::same_as<Array>;
};

/// `Array operator()(shape_view, data_type)`: as `makes_shapes`, for arrays whose element type is chosen at run time.
/// May also throw for a data type that the library does not support.
template <class Make, class Array>
concept makes_types = requires(Make& make, shape_view shape, data_type type) {
    { make(shape, type) } -> std::same_as<Array>;
};

/// The type of the maker that `run` receives. The concepts below describe optional functions, which enable more checks.
template <class Make, class Array>
concept maker = makes_shapes<Make, Array> || makes_types<Make, Array>;

/// `shape_view shape()`: returns a shape that the type supports; required for types of fixed shape.
template <class Make>
concept has_shape = requires(Make& make) {
    { make.shape() } -> std::convertible_to<shape_view>;
};

/// `Array strided(shape_view)`: returns an array whose layout is not compact row-major, such as a transposed array or a
/// slice of a larger array. The elements have the values described for `makes_shapes`.
template <class Make, class Array>
concept makes_strided = requires(Make& make, shape_view shape) {
    { make.strided(shape) } -> std::same_as<Array>;
};

/// `Array read_only(shape_view)`: returns an array whose elements must not be written. These have the values described
/// for `makes_shapes`.
template <class Make, class Array>
concept makes_read_only = requires(Make& make, shape_view shape) {
    { make.read_only(shape) } -> std::same_as<Array>;
};

/// `live()`: returns the amount of memory that the library holds, as a number of bytes, arrays or references. The kit
/// calls it to detect leaks.
template <class Make>
concept counts_live = requires(Make& make) {
    { make.live() } -> std::convertible_to<long long>;
};

/// `reaches(device)`: returns whether the library itself uses a device of that type in this process, for example
/// because its CUDA runtime finds a GPU. The kit then offers no simulated memory or streams of that type, because the
/// library would pass their addresses and handles to the runtime.
template <class Make>
concept reaches_devices = requires(Make& make, device dev) {
    { make.reaches(dev) } -> std::same_as<bool>;
};

}  // namespace FERRY_NAMESPACE::conformance
