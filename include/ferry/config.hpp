// ferry: requirements of the library and feature tests for the compiler and the platform.
#pragma once

#if !defined(__cplusplus) || (__cplusplus < 202002L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L))
#error "ferry needs C++20: compile with -std=c++20 or later (GCC 12, Clang 16, or newer)"
#include <see_the_error_above>  // does not exist, so the compiler stops here and reports no errors in later lines
#endif
#if !defined(__GNUC__) && !defined(__clang__)  // Clang for the ABI of MSVC does not define __GNUC__
#if !defined(_MSC_VER) || _MSC_VER < 1940
#error "ferry needs GCC 12, Clang 16 or Visual Studio 2022 17.10, or newer: compile with one of them"
#endif
#elif defined(__apple_build_version__)
#if __clang_major__ < 15
#error "ferry needs Apple Clang 15 (LLVM 16) or newer: update Xcode"
#endif
#elif defined(__clang__)
#if __clang_major__ < 16
#error "ferry needs Clang 16 or newer: select one; with CMake, set CMAKE_CXX_COMPILER"
#endif
#elif __GNUC__ < 12
#error "ferry needs GCC 12 or newer: select one; with CMake, set CMAKE_CXX_COMPILER"
#endif

#include <ferry/version.hpp>

#include <version>

// Deletes an overload, with a message that states the fix. Compilers print the message in C++26; Clang 19 or newer also
// prints it in earlier language modes. Other compilers print the line of the declaration, so keep the name and the
// message on one line.
#if defined(__cpp_deleted_function) && __cpp_deleted_function >= 202403L && __cplusplus > 202302L
#define FERRY_DELETED(cure) = delete (cure)
#elif defined(__cpp_deleted_function) && __cpp_deleted_function >= 202403L && defined(__clang__) && !defined(__CUDACC__)
#define FERRY_DELETED(cure)                                                                          \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wc++26-extensions\"") = \
        delete (cure) _Pragma("clang diagnostic pop")
#else
#define FERRY_DELETED(cure) = delete
#endif

// Marks a parameter that the result references. After the parameter list of a member function, marks the object itself.
// Clang then warns, for example, when a function returns a view of a local list.
#if defined(__clang__) && !defined(__CUDACC__)
#define FERRY_LIFETIME_BOUND [[clang::lifetimebound]]
#else
#define FERRY_LIFETIME_BOUND
#endif

// Attributes, built-in functions and vector types of GNU C++ are available. MSVC does not have them.
#ifndef FERRY_HAS_GNU
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_HAS_GNU 1
#else
#define FERRY_HAS_GNU 0
#endif
#endif

// FERRY_COLD: for functions on error paths, which stay out of line.
// FERRY_ALWAYS_INLINE: for small functions that every exchange calls. A call that is not inlined passes structs through
// memory, which takes longer than the function itself.
#if FERRY_HAS_GNU
#define FERRY_NOINLINE [[gnu::noinline]]
#define FERRY_COLD [[gnu::cold, gnu::noinline]]
#define FERRY_ALWAYS_INLINE [[gnu::always_inline]] inline
#define FERRY_UNREACHABLE() __builtin_unreachable()
#define FERRY_PREFETCH(address, to_write) __builtin_prefetch(address, to_write)
#else
#define FERRY_NOINLINE __declspec(noinline)
#define FERRY_COLD __declspec(noinline)
#define FERRY_ALWAYS_INLINE __forceinline
#define FERRY_UNREACHABLE() __assume(false)
#define FERRY_PREFETCH(address, to_write) static_cast<void>(0)
#endif

// For static variables of which each shared library needs its own copy. Two extension modules may contain different
// versions of ferry. Without this attribute, both would use the variables of the module that was loaded first, whose
// layout may differ.
// Libraries of Windows export nothing that is not marked, and GCC for Windows warns about the attribute.
#if FERRY_HAS_GNU && !defined(_WIN32)
#define FERRY_HIDDEN [[gnu::visibility("hidden")]]
#else
#define FERRY_HIDDEN
#endif

// For exceptions that cross shared library boundaries. libc++ identifies a type by the address of its type info, and
// -fvisibility=hidden would create a separate type info in each library.
#if FERRY_HAS_GNU
#define FERRY_VISIBLE [[gnu::visibility("default")]]
#else
#define FERRY_VISIBLE
#endif

// For the declarations and definitions of functions in an engine, `detail/*.ipp`. By default the public header includes
// its engine, and they are inline. If all translation units of a program define FERRY_SEPARATE_COMPILATION, only the
// one that includes <ferry/src.hpp> compiles the engines. If a shared library contains them, all define FERRY_SHARED.
#if !defined(FERRY_SEPARATE_COMPILATION)
#define FERRY_INLINE inline
#elif defined(FERRY_SHARED) && FERRY_HAS_GNU && !defined(_WIN32)
#define FERRY_INLINE __attribute__((visibility("default")))
#else
#define FERRY_INLINE
#endif

// For members of an empty type. The ABI of MSVC ignores the standard attribute.
#if defined(_MSC_VER)
#define FERRY_NO_UNIQUE_ADDRESS [[msvc::no_unique_address]]
#else
#define FERRY_NO_UNIQUE_ADDRESS [[no_unique_address]]
#endif

// RTTI is available. Without it, ferry cannot detect that the dynamic type of an object is derived from its static
// type.
#if defined(__cpp_rtti)
#define FERRY_HAS_RTTI 1
#else
#define FERRY_HAS_RTTI 0
#endif

// Exceptions are available. Without them (-fno-exceptions), a function that has a `try_…` form, which returns a result
// (D17), exists in that form only. All translation units of a program must use the same setting.
#if defined(__cpp_exceptions)
#define FERRY_HAS_EXCEPTIONS 1
#else
#define FERRY_HAS_EXCEPTIONS 0
#endif

// Deletes an overload of a function that throws and of its `try_` form, with one message. The variadic arguments, such
// as a template header or `inline`, precede `void` in the declarations. GCC prints the line with the names, so keep the
// message on that line. Without exceptions, only the `try_` form is declared.
#if FERRY_HAS_EXCEPTIONS
#define FERRY_DELETED_BOTH(name, try_name, parameters, cure, ...) \
    __VA_ARGS__ void name parameters FERRY_DELETED(cure);         \
    __VA_ARGS__ void try_name parameters FERRY_DELETED(cure)
#else
#define FERRY_DELETED_BOTH(name, try_name, parameters, cure, ...) \
    __VA_ARGS__ void try_name parameters FERRY_DELETED(cure)
#endif

// For deleted overloads that only Clang needs. If a braced argument would initialise a member of an overload's
// parameter through a deleted conversion, Clang discards that overload and selects the deleted one. GCC selects that
// overload, and reports the deleted conversion.
#if defined(__clang__)
#define FERRY_DELETED_BRACED(...) FERRY_DELETED_BOTH(__VA_ARGS__)
#else
#define FERRY_DELETED_BRACED(...)
#endif

// For deleted overloads whose parameter is a request with a member of a type that requests do not accept. The front end
// of nvcc finds them ambiguous with the overloads for valid requests.
#if defined(__CUDACC__) || defined(__EDG__)
#define FERRY_DELETED_REQUEST(...)
#else
#define FERRY_DELETED_REQUEST(...) FERRY_DELETED_BOTH(__VA_ARGS__)
#endif

// Makes the compiler keep a value that was loaded from memory which another process may change. Without it, a compiler
// may load the value a second time after a check. `where` is r for numbers and m for structs.
#if FERRY_HAS_GNU
#define FERRY_KEEP_LOADED(value, where) __asm__("" : "+" #where(value))
#else
#define FERRY_KEEP_LOADED(value, where) static_cast<void>(0)
#endif

// `_Float16` is available. GCC 12 supports it in C++ on x86-64 only, but defines its limit macros on AArch64 as well.
#if defined(__FLT16_MANT_DIG__) && (defined(__clang__) || __GNUC__ >= 13 || defined(__SSE2__))
#define FERRY_HAS_FLOAT16 1
#else
#define FERRY_HAS_FLOAT16 0
#endif

// `std::bfloat16_t` is available (C++23).
#if defined(__STDCPP_BFLOAT16_T__)
#define FERRY_HAS_STD_BFLOAT16 1
#else
#define FERRY_HAS_STD_BFLOAT16 0
#endif

// `std::mdspan` is available (C++23; libc++ 18, libstdc++ 15).
#if defined(__cpp_lib_mdspan) && __cpp_lib_mdspan >= 202207L
#define FERRY_HAS_STD_MDSPAN 1
#else
#define FERRY_HAS_STD_MDSPAN 0
#endif

// `v[i, j]` is available (C++23), because a subscript operator may have any number of parameters.
#if defined(__cpp_multidimensional_subscript) && __cpp_multidimensional_subscript >= 202110L
#define FERRY_HAS_MULTI_SUBSCRIPT 1
#else
#define FERRY_HAS_MULTI_SUBSCRIPT 0
#endif

// `column/` is available. Requires a 64-bit, little-endian host, because Arrow buffers are used without conversion.
#if defined(_WIN64) || (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && __SIZEOF_POINTER__ == 8)
#define FERRY_HAS_COLUMN 1
#else
#define FERRY_HAS_COLUMN 0
#endif

// `ipc/` and CUDA IPC are available. They require 64-bit Linux, because they use /proc, /dev/shm, futexes and locks of
// open file descriptions.
#if defined(__linux__) && defined(__LP64__)
#define FERRY_HAS_IPC 1
#else
#define FERRY_HAS_IPC 0
#endif

#if defined(FERRY_SEPARATE_COMPILATION)
namespace FERRY_NAMESPACE {
// Defined by <ferry/src.hpp>. Each translation unit references it, so that a link without the engines fails with this
// name, whichever functions the program calls.
extern FERRY_INLINE char const define_FERRY_SEPARATE_COMPILATION_in_every_translation_unit_and_link_ferry_compiled;
#if FERRY_HAS_GNU
[[gnu::used]] FERRY_HIDDEN inline char const* const needs_engines =
    &define_FERRY_SEPARATE_COMPILATION_in_every_translation_unit_and_link_ferry_compiled;
#endif
}  // namespace FERRY_NAMESPACE
#endif
