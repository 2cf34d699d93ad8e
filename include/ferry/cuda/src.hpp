// ferry: the engines of the CUDA back end, which <ferry/src.hpp> does not include. With FERRY_SEPARATE_COMPILATION, one
// translation unit of a program that uses it includes this header.
#pragma once

#ifndef FERRY_SEPARATE_COMPILATION
#error "ferry: define FERRY_SEPARATE_COMPILATION for all translation units, or do not include <ferry/cuda/src.hpp>"
#endif

#include <ferry/cuda/detail/copier.ipp>
