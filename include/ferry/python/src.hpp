// ferry: the engines of the exchange with Python, which <ferry/src.hpp> does not include. With
// FERRY_SEPARATE_COMPILATION, one translation unit of each extension module that uses it includes this header.
#pragma once

#ifndef FERRY_SEPARATE_COMPILATION
#error "ferry: define FERRY_SEPARATE_COMPILATION for all translation units, or do not include <ferry/python/src.hpp>"
#endif

#include <ferry/python/detail/export.ipp>
#include <ferry/python/detail/import.ipp>
