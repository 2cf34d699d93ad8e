// ferry: the version of the library. Build files and packages read it from this header.
#pragma once

#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 1
#define FERRY_VERSION_PATCH 0

// For comparisons: 0.1.0 is 100, 1.2.3 is 10203.
#define FERRY_VERSION (FERRY_VERSION_MAJOR * 10000 + FERRY_VERSION_MINOR * 100 + FERRY_VERSION_PATCH)

// The inline namespace of all names, for the version of the binary interface. A framework that compiles a copy of ferry
// into a library may define a name of its own before the first include, so that its functions are not merged with those
// of another version of ferry in the same library. With FERRY_SEPARATE_COMPILATION (config.hpp) the default differs, so
// that translation units with and without it do not link; the linker prints the name of the macro.
#ifndef FERRY_ABI_NAMESPACE
#ifdef FERRY_SEPARATE_COMPILATION
#define FERRY_ABI_NAMESPACE v0_FERRY_SEPARATE_COMPILATION
#else
#define FERRY_ABI_NAMESPACE v0
#endif
#endif
// The namespace of ferry, as each header opens it. Tools that expand no macros take it for `ferry` (.ctags.d).
// FERRY_TERSE_ERRORS removes the texts of errors, which changes functions, so it adds a namespace as well.
#ifdef FERRY_TERSE_ERRORS
#define FERRY_NAMESPACE ferry::inline FERRY_ABI_NAMESPACE::inline with_FERRY_TERSE_ERRORS
#else
#define FERRY_NAMESPACE ferry::inline FERRY_ABI_NAMESPACE
#endif
