// ferry: how the conformance kit gets arrays of an author's type.
#pragma once

#include <ferry/base/dtype.hpp>
#include <ferry/base/shape.hpp>

#include <concepts>

namespace ferry::inline v0::conformance {

/// `Array operator()(shape_view)`: an array of that shape whose elements, in row-major order of their indices, are 1,
/// 2, 3, … (true for bool, real parts for complex). Throws anything where the library has no such array; the rules are
/// then judged on those shapes that it has. Not required: any one rank, or a layout.
template <class Make, class Array>
concept makes_shapes = requires(Make& make, shape_view shape) {
    { make(shape) } -> std::same_as<Array>;
};

/// `Array operator()(shape_view, data_type)`: the same for arrays that learn their element type at run time.
template <class Make, class Array>
concept makes_types = requires(Make& make, shape_view shape, data_type type) {
    { make(shape, type) } -> std::same_as<Array>;
};

/// What `run` takes. Each of the concepts below adds a function to it that lets more be judged.
template <class Make, class Array>
concept maker = makes_shapes<Make, Array> || makes_types<Make, Array>;

/// `shape_view shape()`: a shape that the type has, where it is none of the usual: it is fixed, say.
template <class Make>
concept has_shape = requires(Make& make) {
    { make.shape() } -> std::convertible_to<shape_view>;
};

/// `Array strided(shape_view)`: such an array that is not compact and row-major: transposed, sliced, with its first
/// element inside a larger array. The elements count as above.
template <class Make, class Array>
concept makes_strided = requires(Make& make, shape_view shape) {
    { make.strided(shape) } -> std::same_as<Array>;
};

/// `Array read_only(shape_view)`: such an array whose elements must not be written.
template <class Make, class Array>
concept makes_read_only = requires(Make& make, shape_view shape) {
    { make.read_only(shape) } -> std::same_as<Array>;
};

/// `live()`: how much the library has out at the moment, in any unit: bytes, arrays, references. Leaks are seen by it.
template <class Make>
concept counts_live = requires(Make& make) {
    { make.live() } -> std::convertible_to<long long>;
};

}  // namespace ferry::inline v0::conformance
